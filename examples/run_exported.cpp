// Runs a function of JAX arrays that was compiled ahead of time: C++ and libtorch, no Python.
//
// In Python:  program = jaxish.interop.export(f, x)
//             torch._inductor.aoti_compile_and_package(program, package_path="f.pt2")
// Compile:    T=$(python -c "import torch; print(torch.__path__[0])")
//             g++ -std=c++20 run_exported.cpp -o run_exported -I$T/include -I$T/include/torch/csrc/api/include \
//                 -L$T/lib -Wl,-rpath,$T/lib -ltorch -ltorch_cpu -lc10
// Run:        echo 1 2 3 4 5 6 | ./run_exported f.pt2 2 3
//
// The shape of x comes after the package, the numbers from the standard input; the numbers of each result are one line.

#include <ATen/ATen.h>
#include <torch/csrc/inductor/aoti_package/model_package_loader.h>

#include <cstdlib>
#include <iostream>
#include <vector>

int main(int argc, char** argv) {
  if (argc < 2) {
    std::cerr << "usage: run_exported PACKAGE [SIZE ...] < NUMBERS\n";
    return 2;
  }
  std::vector<int64_t> shape;
  for (int i = 2; i < argc; ++i) shape.push_back(std::atoll(argv[i]));
  at::Tensor x = at::empty(shape, at::kFloat);
  for (int64_t i = 0; i < x.numel(); ++i) {
    if (!(std::cin >> x.data_ptr<float>()[i])) {
      std::cerr << "expected " << x.numel() << " numbers, got " << i << "\n";
      return 1;
    }
  }
  torch::inductor::AOTIModelPackageLoader function(argv[1]);
  std::cout.precision(9);
  for (const at::Tensor& result : function.run({x})) {
    const at::Tensor flat = result.to(at::kDouble).flatten().contiguous();
    for (int64_t i = 0; i < flat.numel(); ++i) std::cout << (i ? " " : "") << flat.data_ptr<double>()[i];
    std::cout << "\n";
  }
}
