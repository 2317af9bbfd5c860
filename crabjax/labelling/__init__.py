"""A labelling project in a folder: texts, what people said about them, and what to label next."""

from crabjax.labelling.project import Project as Project
from crabjax.labelling.project import ProjectError as ProjectError
