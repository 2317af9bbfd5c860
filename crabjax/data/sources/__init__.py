"""Data sets from raw files to the common format; importing this package registers all of them."""

from crabjax.data.sources import emotions as emotions
from crabjax.data.sources import eurlex as eurlex
from crabjax.data.sources import mimic as mimic
from crabjax.data.sources import mimic4 as mimic4
from crabjax.data.sources import rcv1 as rcv1
from crabjax.data.sources import reuters as reuters
from crabjax.data.sources import uklex as uklex
from crabjax.data.sources.common import SOURCES as SOURCES
from crabjax.data.sources.common import About as About
from crabjax.data.sources.common import Asked as Asked
from crabjax.data.sources.common import Document as Document
from crabjax.data.sources.common import Prepared as Prepared
from crabjax.data.sources.common import Source as Source
from crabjax.data.sources.common import draw_split as draw_split
from crabjax.data.sources.common import find_raw as find_raw
from crabjax.data.sources.common import register_source as register_source
from crabjax.data.sources.common import write_splits as write_splits
