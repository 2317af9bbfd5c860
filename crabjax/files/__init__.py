"""What is read from and written to disk: text, whole files, locks, sums, arrays, the cache."""

from crabjax.files.read import BYTE_ORDER_MARK as BYTE_ORDER_MARK
from crabjax.files.read import DataError as DataError
from crabjax.files.read import DataWarning as DataWarning
from crabjax.files.read import check_json as check_json
from crabjax.files.read import check_safetensors as check_safetensors
from crabjax.files.read import did_you_mean as did_you_mean
from crabjax.files.read import read_json_lines as read_json_lines
from crabjax.files.read import read_lines as read_lines
from crabjax.files.read import sha256 as sha256
from crabjax.files.write import LOCK as LOCK
from crabjax.files.write import PRIVATE as PRIVATE
from crabjax.files.write import atomic_write as atomic_write
from crabjax.files.write import check_writable as check_writable
from crabjax.files.write import flush_folder as flush_folder
from crabjax.files.write import lock as lock
from crabjax.files.write import write_text as write_text
