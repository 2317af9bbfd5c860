"""What only a CPU gets: formulations that skip work a dense program would do.

Each computes what the classifier's own file says, to rounding, and is there because it is faster
CPU by more than 1.3 times. Loops of data-dependent length and members one after another suit a core;
accelerators get the dense definitions.
"""

from crabjax.models.on_cpu.max_convolution import max_convolution as max_convolution
