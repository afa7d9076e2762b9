"""Types of NumPy arrays, for annotations: to name them does not import NumPy."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]
    Flags = NDArray[np.bool_]
else:
    Floats = Ints = Flags = Any
