"""jax.scipy.spatial: rotations in three dimensions, as unit quaternions (x, y, z, w), and interpolation between them."""

import itertools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from .._core import selection
from .._core.array import Array, tensor_of
from .._core.dimensions import broadcast_shape
from .._core.promotion import convert, promote, promote_inexact, tensor
from .._core.typing import ArrayLike, DTypeLike
from .._numpy.creation import array, asarray
from .._numpy.joining import concatenate
from .._numpy.manipulation import atleast_1d
from .._numpy.searching import places_in

_SMALL = 1e-3  # below this angle, Taylor series
_DEGENERATE = 1e-7  # how near the middle Euler angle is to 0 or pi where the others are not unique


def _tensor(x: Any) -> Tensor:
    (t,), _ = promote_inexact("Rotation", asarray(x))
    return t


def _length(t: Tensor) -> Tensor:
    """Return the lengths of the vectors along the last axis, kept."""
    return torch.sqrt((t * t).sum(-1, keepdim=True))


def _normalized(quat: Tensor) -> Tensor:
    return quat / _length(quat)


def _product(p: Tensor, q: Tensor) -> Tensor:
    """Return the quaternions of the rotations p after q."""
    broadcast_shape(p.shape, q.shape)
    (a, b, c, d), (x, y, z, w) = p.unbind(-1), q.unbind(-1)
    return torch.stack(
        [
            d * x + a * w + b * z - c * y,
            d * y - a * z + b * w + c * x,
            d * z + a * y - b * x + c * w,
            d * w - a * x - b * y - c * z,
        ],
        -1,
    )


def _from_rotvec(rotvec: Tensor) -> Tensor:
    angle = _length(rotvec)
    square = angle * angle
    series = 0.5 - square / 48 + square * square / 3840
    factor = selection.where(angle <= _SMALL, series, torch.sin(angle / 2) / angle)
    return torch.cat([factor * rotvec, torch.cos(angle / 2)], -1)


def _matrix(quat: Tensor) -> Tensor:
    x, y, z, w = quat.unbind(-1)
    rows = [
        [x * x - y * y - z * z + w * w, 2 * (x * y - z * w), 2 * (x * z + y * w)],
        [2 * (x * y + z * w), y * y - x * x - z * z + w * w, 2 * (y * z - x * w)],
        [2 * (x * z - y * w), 2 * (y * z + x * w), z * z - x * x - y * y + w * w],
    ]
    return torch.stack([torch.stack(row, -1) for row in rows], -2)


def _from_matrix(m: Tensor) -> Tensor:
    """Return quaternions from the largest of their components, which is well conditioned (Shepperd, 1978)."""
    diagonal = m.diagonal(dim1=-2, dim2=-1)
    trace = diagonal.sum(-1)
    choices = []
    for i in range(3):
        j, k = (i + 1) % 3, (i + 2) % 3
        parts: list[Any] = [None] * 4
        parts[i] = 1 - trace + 2 * m[..., i, i]
        parts[j] = m[..., j, i] + m[..., i, j]
        parts[k] = m[..., k, i] + m[..., i, k]
        parts[3] = m[..., k, j] - m[..., j, k]
        choices.append(torch.stack(parts, -1))
    turns = [m[..., 2, 1] - m[..., 1, 2], m[..., 0, 2] - m[..., 2, 0], m[..., 1, 0] - m[..., 0, 1]]
    choices.append(torch.stack([*turns, 1 + trace], -1))
    largest = torch.cat([diagonal, trace[..., None]], -1).argmax(-1)
    found = choices[3]
    for i in range(3):
        found = selection.where((largest == i)[..., None], choices[i], found)
    return _normalized(found)


def _axes(seq: str, is_complete: bool) -> tuple[list[int], bool]:
    """Return the axes that a text such as "xyz" names, and whether they turn with the body (capital letters)."""
    if is_complete and len(seq) != 3:
        raise ValueError(f"Expected 3 axes, got {seq}.")
    if not 1 <= len(seq) <= 3:
        raise ValueError(f"Expected axis specification to be a non-empty string of upto 3 characters, got {seq}")
    if not (set(seq) <= set("xyz") or set(seq) <= set("XYZ")):
        raise ValueError(f"Expected axes from `seq` to be from ['x', 'y', 'z'] or ['X', 'Y', 'Z'], got {seq}")
    if any(a == b for a, b in itertools.pairwise(seq)):
        raise ValueError(f"Expected consecutive axes to be different, got {seq}")
    return ["xyz".index(letter) for letter in seq.lower()], seq.isupper()


def _from_euler(angles: Tensor, axes: list[int], is_intrinsic: bool) -> Tensor:
    found = None
    for axis, angle in zip(axes, angles.unbind(-1), strict=True):
        zero = torch.zeros_like(angle)
        parts = [zero, zero, zero, torch.cos(angle / 2)]
        parts[axis] = torch.sin(angle / 2)
        turn = torch.stack(parts, -1)
        found = turn if found is None else _product(found, turn) if is_intrinsic else _product(turn, found)
    assert found is not None
    return found


def _euler(quat: Tensor, axes: list[int], is_intrinsic: bool) -> Tensor:
    """Return Euler angles (Bernardes and Viollet, Quaternion to Euler angles conversion, PLoS ONE 17, 2022)."""
    i, j, k = axes[::-1] if is_intrinsic else axes
    symmetric = i == k
    k = 3 - i - j if symmetric else k
    sign = (i - j) * (j - k) * (k - i) // 2
    parts = quat.unbind(-1)
    a, b, c, d = parts[3], parts[i], parts[j], parts[k] * sign
    if not symmetric:
        a, b, c, d = a - c, b + d, c + a, d - b
    middle = 2 * torch.atan2(torch.hypot(c, d), torch.hypot(a, b))
    half_sum, half_difference = torch.atan2(b, a), torch.atan2(d, c)
    first, third = half_sum - half_difference, half_sum + half_difference
    at_zero, at_pi = middle.abs() <= _DEGENERATE, (middle - math.pi).abs() <= _DEGENERATE
    # Where only the sum or the difference is known, the last rotation of the sequence is taken for none.
    alone = selection.where(at_zero, 2 * half_sum, 2 * half_difference * (1 if is_intrinsic else -1))
    is_degenerate, none = at_zero | at_pi, torch.zeros_like(middle)
    if is_intrinsic:
        first, third = selection.where(is_degenerate, none, first), selection.where(is_degenerate, alone, third)
    else:
        first, third = selection.where(is_degenerate, alone, first), selection.where(is_degenerate, none, third)
    if not symmetric:
        third, middle = third * sign, middle - math.pi / 2
    angles = torch.stack([third, middle, first] if is_intrinsic else [first, middle, third], -1)
    return torch.remainder(angles + math.pi, 2 * math.pi) - math.pi


class Rotation(NamedTuple):
    """One rotation in three dimensions, or an array of them."""

    quat: Array

    @classmethod
    def concatenate(cls, rotations: Sequence["Rotation"]) -> "Rotation":
        """Return the arrays of rotations one behind another."""
        return cls(concatenate([rotation.quat for rotation in rotations]))

    @classmethod
    def from_euler(cls, seq: str, angles: ArrayLike, degrees: bool = False) -> "Rotation":
        """Return rotations by `angles` about the axes in `seq`: "xyz" those of space, "XYZ" those of the body."""
        axes, is_intrinsic = _axes(seq, False)
        turns = _tensor(atleast_1d(angles))
        if turns.shape[-1] != len(axes):
            raise ValueError(f"inconsistent size: {len(axes)} axes and {turns.shape[-1]} angles")
        return cls(Array(_from_euler(torch.deg2rad(turns) if degrees else turns, axes, is_intrinsic)))

    @classmethod
    def from_matrix(cls, matrix: ArrayLike) -> "Rotation":
        """Return the rotations with these orthogonal matrices."""
        return cls(Array(_from_matrix(_tensor(matrix))))

    @classmethod
    def from_mrp(cls, mrp: ArrayLike) -> "Rotation":
        """Return the rotations with these modified Rodrigues parameters: tan(angle / 4) times the axis."""
        t = _tensor(mrp)
        square = (t * t).sum(-1, keepdim=True)
        return cls(Array(torch.cat([2 * t, 1 - square], -1) / (square + 1)))

    @classmethod
    def from_quat(cls, quat: ArrayLike) -> "Rotation":
        """Return the rotations with these quaternions (x, y, z, w), normalized."""
        return cls(Array(_normalized(_tensor(quat))))

    @classmethod
    def from_rotvec(cls, rotvec: ArrayLike, degrees: bool = False) -> "Rotation":
        """Return the rotations about these vectors, by their lengths."""
        t = _tensor(rotvec)
        return cls(Array(_from_rotvec(torch.deg2rad(t) if degrees else t)))

    @classmethod
    def identity(cls, num: int | None = None, dtype: DTypeLike = float) -> "Rotation":
        """Return the rotation that leaves everything where it is. `num` must be None."""
        assert num is None
        return cls(array([0.0, 0.0, 0.0, 1.0], dtype=dtype))

    @classmethod
    def random(cls, random_key: ArrayLike, num: int | None = None) -> "Rotation":
        """Raise `NotImplementedError`, like JAX's."""
        raise NotImplementedError("Rotation.random; use jax.random.orthogonal and Rotation.from_matrix.")

    def __getitem__(self, indexer: Any) -> "Rotation":  # pyright: ignore
        if self.single:
            raise TypeError("Single rotation is not subscriptable.")
        return Rotation(self.quat[indexer])  # pyright: ignore

    def __len__(self) -> int:
        if self.single:
            raise TypeError("Single rotation has no len().")
        return self.quat.shape[0]

    def __mul__(self, other: "Rotation") -> "Rotation":  # pyright: ignore
        (p, q), _ = promote("Rotation", self.quat, other.quat)
        return Rotation(Array(_normalized(_product(p, q))))

    def apply(self, vectors: ArrayLike, inverse: bool = False) -> Array:
        """Return the vectors rotated, or by the inverse rotations."""
        (m, v), _ = promote("Rotation", self.as_matrix(), asarray(vectors))
        broadcast_shape(m.shape[:-1], v.shape)
        return Array((m * v[..., None]).sum(-2) if inverse else (m * v[..., None, :]).sum(-1))

    def as_euler(self, seq: str, degrees: bool = False) -> Array:
        """Return the angles about the three axes in `seq`, as `from_euler` takes them."""
        angles = _euler(tensor("Rotation", self.quat), *_axes(seq, True))
        return Array(torch.rad2deg(angles) if degrees else angles)

    def as_matrix(self) -> Array:
        """Return orthogonal matrices."""
        return Array(_matrix(tensor("Rotation", self.quat)))

    def as_mrp(self) -> Array:
        """Return modified Rodrigues parameters: tan(angle / 4) times the axis."""
        t = tensor("Rotation", self.quat)
        sign = selection.where(t[..., 3:] < 0, -torch.ones_like(t[..., 3:]), 1.0)
        return Array(sign * t[..., :3] / (1 + sign * t[..., 3:]))

    def as_rotvec(self, degrees: bool = False) -> Array:
        """Return vectors along the axes, as long as the angles."""
        t = tensor("Rotation", self.quat)
        t = selection.where(t[..., 3:] < 0, -t, t)
        angle = 2 * torch.atan2(_length(t[..., :3]), t[..., 3:])
        square = angle * angle
        series = 2 + square / 12 + 7 * square * square / 2880
        factor = selection.where(angle <= _SMALL, series, angle / torch.sin(angle / 2))
        return Array((torch.rad2deg(factor) if degrees else factor) * t[..., :3])

    def as_quat(self, canonical: bool = False, scalar_first: bool = False) -> Array:
        """Return quaternions (x, y, z, w), or (w, x, y, z) with `scalar_first`.

        Of the two that stand for a rotation, the canonical one has the first positive number of w, x, y, z.
        """
        t = tensor("Rotation", self.quat)
        if canonical:
            is_negative = torch.zeros_like(t[..., 0], dtype=torch.bool)
            for part in reversed([t[..., d] for d in (3, 0, 1, 2)]):
                is_negative = (part < 0) | ((part == 0) & is_negative)
            t = selection.where(is_negative[..., None], -t, t)
        return Array(torch.roll(t, 1, -1) if scalar_first else t)

    def inv(self) -> "Rotation":
        """Return the inverse rotations."""
        t = tensor("Rotation", self.quat)
        return Rotation(Array(torch.cat([-t[..., :3], t[..., 3:]], -1)))

    def magnitude(self) -> Array:
        """Return the angles, between 0 and pi."""
        t = tensor("Rotation", self.quat)
        return Array(2 * torch.atan2(_length(t[..., :3])[..., 0], t[..., 3].abs()))

    def mean(self, weights: ArrayLike | None = None) -> "Rotation":
        """Return the mean rotation, which is nearest to all: a principal axis of the quaternions."""
        t = tensor("Rotation", self.quat)
        if weights is None:
            w = t.new_ones(t.shape[:1])
        else:
            w = convert(tensor("Rotation", asarray(weights)), t.dtype)
        if w.dim() != 1:
            raise ValueError(f"Expected `weights` to be 1 dimensional, got shape {tuple(w.shape)}.")
        if w.shape[0] != len(self):
            raise ValueError(
                "Expected `weights` to have number of values equal to number of rotations, got "
                f"{w.shape[0]} values and {len(self)} rotations."
            )
        return Rotation(Array(torch.linalg.eigh((w[:, None] * t).T @ t).eigenvectors[:, -1]))

    @property
    def single(self) -> bool:
        """Whether this is one rotation, not an array of them."""
        return self.quat.ndim == 1


class Slerp(NamedTuple):
    """Rotations at given times, interpolated between them along the shortest ways. `Slerp.init` makes one."""

    times: Array
    timedelta: Array
    rotations: Rotation
    rotvecs: Array

    @classmethod
    def init(cls, times: ArrayLike, rotations: Rotation) -> "Slerp":
        """Return the interpolation of `rotations` at strictly increasing `times`."""
        if not isinstance(rotations, Rotation):
            raise TypeError("`rotations` must be a `Rotation` instance.")
        if rotations.single or len(rotations) == 1:
            raise ValueError("`rotations` must be a sequence of at least 2 rotations.")
        points = asarray(times, dtype=rotations.quat.dtype)
        if points.ndim != 1:
            raise ValueError(f"Expected times to be specified in a 1 dimensional array, got {points.ndim} dimensions.")
        if points.shape[0] != len(rotations):
            raise ValueError(
                "Expected number of rotations to be equal to number of timestamps given, got "
                f"{len(rotations)} rotations and {points.shape[0]} timestamps."
            )
        t = tensor_of(points)
        quats = tensor_of(rotations.quat)
        before, behind = Rotation(Array(quats[:-1])), Rotation(Array(quats[1:]))
        return cls(points, Array(t[1:] - t[:-1]), before, (before.inv() * behind).as_rotvec())

    def __call__(self, times: ArrayLike) -> Rotation:
        """Return the rotations at `times`."""
        points = asarray(times, dtype=self.times.dtype)
        if points.ndim > 1:
            raise ValueError("`times` must be at most 1-dimensional.")
        t, knots = tensor_of(points), tensor_of(self.times)
        behind = places_in(knots, t.reshape(-1), False) - 1
        below = behind.clamp(0, knots.shape[0] - 2)
        # Beyond the last time, JAX counts from there, but from the last rotation but one.
        part = (t.reshape(-1) - knots[behind.clamp(0)]) / tensor_of(self.timedelta)[below]
        turn = Rotation(Array(_from_rotvec(tensor_of(self.rotvecs)[below] * part[:, None])))
        found = Rotation(Array(tensor_of(self.rotations.quat)[below])) * turn
        return found if points.ndim else Rotation(Array(tensor_of(found.quat)[0]))
