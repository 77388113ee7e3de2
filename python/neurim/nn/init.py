"""The functions of neurim.init, as users of torch.nn.init find them."""

from ..init import *
from ..init import __all__ as __all__
