"""The bytes of an exported function: a head that JSON says, and the elements of tensors as they lie in memory.

    magic (8 bytes) | version (4) | bytes of the head (8) | SHA-256 of what follows (32) | head | tensors, 64-byte aligned

Numbers are little-endian. The head lists the tensors' dtypes, shapes and places. Nothing in it is code; what it says is looked
up by name (`replay.py`).
"""

import hashlib
import json
import struct
import sys
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from .replay import torch_constant

VERSION = 1  # of the format: it grows whenever older readers would misread a file

_MAGIC = b"jaxish\xe2\x82"  # no text, and no flatbuffer of JAX's
_PREFIX = struct.Struct("<8sIQ32s")
_ALIGNMENT = 64


def packed(head: dict[str, Any], tensors: Sequence[Tensor]) -> bytearray:
    """Return the bytes of a head and of the tensors that it names by number."""
    listed, blobs, place = [], [], 0
    for tensor in tensors:
        blob = _elements(tensor)
        listed.append({"dtype": str(tensor.dtype)[len("torch.") :], "shape": list(tensor.shape), "place": place})
        padding = -len(blob) % _ALIGNMENT
        blobs += [blob, bytes(padding)]
        place += len(blob) + padding
    text = json.dumps({**head, "tensors": listed}, separators=(",", ":")).encode()
    text += b" " * (-(_PREFIX.size + len(text)) % _ALIGNMENT)
    found = bytearray(_PREFIX.pack(_MAGIC, VERSION, len(text), bytes(32)))
    for part in (text, *blobs):
        found += part
    _PREFIX.pack_into(found, 0, _MAGIC, VERSION, len(text), _digest(found))
    return found


def unpacked(blob: Any) -> tuple[dict[str, Any], list[Tensor]]:
    """Return the head and the tensors of such bytes.

    Raises `ValueError` for bytes that are something else, of a later format, cut off or damaged.
    """
    view = memoryview(blob).cast("B")
    if len(view) < _PREFIX.size or view[:8] != _MAGIC:
        raise ValueError(
            "These bytes are no function that jaxish exported. What JAX itself exports holds StableHLO, which torch cannot run; "
            "export the function with jaxish."
        )
    _, version, length, digest = _PREFIX.unpack_from(view)
    if version > VERSION:
        raise ValueError(
            f"This function was exported in version {version} of the format; this jaxish reads up to version {VERSION}. "
            "Update jaxish, or export with an older one."
        )
    if _digest(view) != digest:
        raise ValueError("The bytes of this exported function are damaged or cut off: their checksum is another.")
    head = json.loads(bytes(view[_PREFIX.size : _PREFIX.size + length]))
    rest = view[_PREFIX.size + length :]
    return head, [_tensor(said, rest) for said in head.pop("tensors")]


def _digest(view: Any) -> bytes:
    return hashlib.sha256(memoryview(view)[_PREFIX.size :]).digest()


def _elements(tensor: Tensor) -> bytes:
    if sys.byteorder != "little":
        raise NotImplementedError("export on a machine with big-endian numbers; use another.")
    plain = tensor.detach().resolve_conj().resolve_neg().cpu().contiguous()
    return plain.reshape(-1).view(torch.uint8).numpy().tobytes()


def _tensor(said: dict[str, Any], rest: memoryview) -> Tensor:
    dtype = torch_constant(said["dtype"], torch.dtype)
    tensor = torch.empty(said["shape"], dtype=dtype, device="cpu")
    size, place = tensor.numel() * dtype.itemsize, said["place"]
    if place < 0 or place + size > len(rest):
        raise ValueError("a tensor of this exported function lies outside of its bytes.")
    if size:
        flat = torch.frombuffer(bytearray(rest[place : place + size]), dtype=torch.uint8)
        tensor.view(-1).view(torch.uint8).copy_(flat)
    return tensor
