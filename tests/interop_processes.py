"""One of two processes, started by test_interop_modules.py with torchrun's variables: trains a JAX model with torch's wrappers."""

import pickle
import sys
from pathlib import Path

import torch
from interop_models import BATCHES, apply, params
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

import jaxish as jax
from jaxish.interop import Module


def train(model, rank):
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
    for batch in BATCHES:
        x, y = (part[rank::2] for part in batch)  # each process has half of the batch
        optimizer.zero_grad()
        ((model(x) - y) ** 2).mean().backward()
        optimizer.step()


def main():
    torch.distributed.init_process_group("gloo")
    rank = torch.distributed.get_rank()
    found = {}
    model = Module(apply, jax.tree.map(jax.numpy.asarray, params()))
    train(DistributedDataParallel(model), rank)
    found["ddp"] = {n: p.detach() for n, p in model.named_parameters()}
    model = Module(apply, jax.tree.map(jax.numpy.asarray, params()))
    mesh = torch.distributed.device_mesh.init_device_mesh("cpu", (2,))
    fully_shard(model, mesh=mesh)
    train(model, rank)
    found["fsdp"] = {n: p.detach().full_tensor() for n, p in model.named_parameters()}  # pyright: ignore
    Path(sys.argv[1]).write_bytes(pickle.dumps(found))
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
