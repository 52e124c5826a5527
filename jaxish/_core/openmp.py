"""OpenMP as torch has it, called past torch."""

import ctypes

import torch

# torch is linked with the OpenMP that its kernels and Inductor's use, whatever its file is called. Tried with torch 2.9 and
# 2.13 on Linux (libgomp). Other systems' torch has LLVM's.
library = ctypes.CDLL(torch._C.__file__)


def set_threads(count: int) -> None:
    """Let what this thread computes have `count` threads, as `torch.get_num_threads` then says.

    `torch.set_num_threads` also has MKL take as many within each of torch's own threads, where its LU factorizations are
    not safe: those of a batch of matrices of more than 150 rows are wrong from then on (pytorch/pytorch#142815).
    """
    if hasattr(library, "omp_set_num_threads"):
        library.omp_set_num_threads(count)
    else:
        torch.set_num_threads(count)
