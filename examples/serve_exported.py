"""A JAX model in production: trained on scikit-learn's digits, exported, and served by a process that has torch alone.

`python serve_exported.py` trains an MLP on PyTorch by JAX's functions, exports its predictions for batches of any size as a `.pt2`
file, and compiles that ahead of time where there is a C++ compiler. For each of the two files it starts a server
(`python serve_exported.py --serve FILE`), a process in which nothing of jaxish is imported, sends it the test images one at a
time and all at once, holds the answers against the model's own, and prints accuracy and latency.
"""

import argparse
import http.client
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import numpy as np
import torch

SIZES = (64, 128, 10)


# ---------------------------------------------------------------------------------------------------------- the model


def load_digits_split(test_fraction=0.2, seed=0):
    """Return (train images, train labels), (test images, test labels); images are (n, 8, 8) in [0, 1]."""
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split

    digits: Any = load_digits()
    images = (digits.images / 16.0).astype(np.float32)
    labels = digits.target.astype(np.int32)
    split = train_test_split(images, labels, test_size=test_fraction, random_state=seed, stratify=labels)
    return (split[0], split[2]), (split[1], split[3])


def logits(params, images):
    """Return ten logits per image (n, 8, 8)."""
    import jaxish.numpy as jnp

    x = images.reshape(images.shape[0], -1)
    for layer in params[:-1]:
        x = jnp.tanh(x @ layer["w"] + layer["b"])
    return x @ params[-1]["w"] + params[-1]["b"]


def train(images, labels, options, report=print):
    """Return the parameters after so many epochs of SGD with momentum."""
    import jaxish as jax
    import jaxish.numpy as jnp

    def loss(params, x, y):
        return -jnp.take_along_axis(jax.nn.log_softmax(logits(params, x)), y[:, None], 1).mean()

    @jax.jit
    def step(params, velocity, x, y):
        value, slopes = jax.value_and_grad(loss)(params, x, y)
        velocity = jax.tree.map(lambda v, g: 0.9 * v + g, velocity, slopes)
        return value, jax.tree.map(lambda p, v: p - options.rate * v, params, velocity), velocity

    keys = jax.random.split(jax.random.key(options.seed), len(SIZES) - 1)
    params = [
        {"w": jax.random.normal(k, (n, m)) * n**-0.5, "b": jnp.zeros(m)}
        for k, n, m in zip(keys, SIZES[:-1], SIZES[1:], strict=True)
    ]
    velocity = jax.tree.map(jnp.zeros_like, params)
    rng = np.random.default_rng(options.seed)
    count = len(images) // options.batch_size
    for epoch in range(1, options.epochs + 1):
        total = 0.0
        for batch in np.split(rng.permutation(len(images))[: count * options.batch_size], count):
            value, params, velocity = step(params, velocity, images[batch], labels[batch])
            total += float(value)
        if epoch % 5 == 0:
            report(f"epoch {epoch:2}: loss {total / count:.4f}")
    return params


def exported(params, folder, report=print):
    """Write the model's predictions for batches of any size as files for torch, and return the files."""
    import jaxish as jax
    from jaxish.interop import export

    def predict(images):
        probabilities = jax.nn.softmax(logits(params, images))
        return probabilities.argmax(1), probabilities.max(1)

    program = export(predict, np.zeros((4, 8, 8), np.float32), dynamic_shapes=({0: torch.export.Dim("batch")},))
    portable = folder / "portable.pt2"
    torch.export.save(program, portable)
    report(f"wrote {portable.name}, {portable.stat().st_size:,} bytes: torch.export.load reads it")
    if shutil.which("g++") is None and shutil.which("clang++") is None:
        report("there is no C++ compiler for AOTInductor")
        return [portable]
    compiled, start = folder / "compiled.pt2", time.perf_counter()
    torch._inductor.aoti_compile_and_package(program, package_path=str(compiled))
    report(
        f"wrote {compiled.name}, {compiled.stat().st_size:,} bytes, in {time.perf_counter() - start:.1f} s: C++ in it"
    )
    return [portable, compiled]


# --------------------------------------------------------------------------------------------------------- the server


def serve(path):
    """Answer POST /predict, images as the bytes of float32 numbers, with classes and their probabilities as JSON."""
    if path.name == "compiled.pt2":
        predict: Any = torch._inductor.aoti_load_package(str(path))
    else:
        predict = torch.export.load(path).module()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"  # which keeps the connection
        disable_nagle_algorithm = True
        wbufsize = -1  # one packet per answer

        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            images = torch.frombuffer(bytearray(body), dtype=torch.float32).reshape(-1, 8, 8)
            classes, probabilities = predict(images)
            answer = json.dumps({"classes": classes.tolist(), "probabilities": probabilities.tolist()}).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, format, *args):
            pass

    found = [name for name in sys.modules if name.partition(".")[0] in ("jax", "jaxish")]
    assert not found, found
    server = HTTPServer(("127.0.0.1", 0), Handler)
    print(server.server_address[1], flush=True)
    server.serve_forever()


# --------------------------------------------------------------------------------------------------------- the client


def asked(connection, images):
    """Return the classes and probabilities that the server gives for images."""
    connection.request("POST", "/predict", np.ascontiguousarray(images).tobytes())
    answer = json.loads(connection.getresponse().read())
    return np.array(answer["classes"]), np.array(answer["probabilities"])


def tried(path, images, labels, wanted, report=print):
    """Serve a file, ask for all images, one at a time and at once, and return accuracy and milliseconds of an answer."""
    command = [sys.executable, __file__, "--serve", str(path)]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        connection = http.client.HTTPConnection("127.0.0.1", int(server.stdout.readline()))
        classes, probabilities = asked(connection, images)
        np.testing.assert_array_equal(classes, wanted[0])
        np.testing.assert_allclose(probabilities, wanted[1], rtol=1e-4)
        times, right = [], 0
        for image, label in zip(images, labels, strict=True):
            start = time.perf_counter()
            found, _ = asked(connection, image[None])
            times.append((time.perf_counter() - start) * 1e3)
            right += int(found[0] == label)
    finally:
        server.terminate()
        server.wait()
    accuracy, median, slow = right / len(labels), float(np.median(times)), float(np.quantile(times, 0.99))
    report(f"{path.name}: accuracy {accuracy:.4f}, an answer takes {median:.2f} ms (median), {slow:.2f} ms (99%)")
    return accuracy, median


def run(options, folder, report=print):
    """Train, export, serve and ask; return a row (file, accuracy, milliseconds) per file."""
    (images, labels), (test_images, test_labels) = load_digits_split()
    params = train(images, labels, options, report)
    files = exported(params, folder, report)
    scores = np.asarray(logits(params, test_images), np.float64)
    chances = np.exp(scores - scores.max(1, keepdims=True))
    wanted = scores.argmax(1), (chances / chances.sum(1, keepdims=True)).max(1)
    report(f"{len(test_images)} test images; the model's own accuracy is {(wanted[0] == test_labels).mean():.4f}")
    return [(f.name, *tried(f, test_images, test_labels, wanted, report)) for f in files]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--serve", type=pathlib.Path, metavar="FILE", help="serve this file, on a free port that is printed"
    )
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--rate", type=float, default=0.05, help="learning rate")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    if options.serve:
        serve(options.serve)
        return
    start = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        run(options, pathlib.Path(folder))
    print(f"all of it took {time.perf_counter() - start:.1f} s")


if __name__ == "__main__":
    main()
