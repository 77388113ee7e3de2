"""The functions of neurim.functional, as users of torch.nn.functional find them."""

from ..functional import *
from ..functional import __all__ as __all__
