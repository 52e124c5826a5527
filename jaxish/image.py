"""jax.image: images in other sizes, scaled and moved."""

from ._image import ResizeMethod as ResizeMethod
from ._image import resize as resize
from ._image import scale_and_translate as scale_and_translate
