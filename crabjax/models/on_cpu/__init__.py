"""What only a CPU gets: formulations that leave out work a dense program does.

Each computes what the classifier's own file says, to rounding, and is there because it is faster
on CPU by more than 1.3 times. Loops whose length depends on the data, and members one after
another, suit a core; accelerators get the dense definitions.
"""

from crabjax.models.on_cpu.text_cnn import max_convolution as max_convolution
from crabjax.models.on_cpu.text_rnn import read_documents as read_documents
