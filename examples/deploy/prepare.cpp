// Prepares a picture in C++ by a pipeline that `pellucid export --to torch` wrote and AOTInductor compiled: libtorch alone, neither Python nor Pellucid.
//
//     prepare PACKAGE.pt2 HEIGHT WIDTH < picture.rgb > pixels.f32
//
// picture.rgb: bytes, rows of pixels of red, green, blue. pixels.f32: float32 (C, H, W) of the result, whose shape and map back to
// the picture go to the error stream.

#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <vector>

#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>
#include <torch/csrc/inductor/aoti_package/model_package_loader.h>

int main(int count, char** given) {
  if (count != 4) {
    std::cerr << "usage: prepare PACKAGE.pt2 HEIGHT WIDTH < picture.rgb > pixels.f32\n";
    return 2;
  }
  const int64_t height = std::atoll(given[2]), width = std::atoll(given[3]);
  std::vector<uint8_t> bytes(height * width * 3);
  if (!std::cin.read(reinterpret_cast<char*>(bytes.data()), bytes.size())) {
    std::cerr << "the picture ends early\n";
    return 2;
  }
  c10::InferenceMode without_gradients;
  const at::Tensor rows = at::from_blob(bytes.data(), {1, height, width, 3}, at::kByte);
  torch::inductor::AOTIModelPackageLoader prepare(given[1]);
  const std::vector<at::Tensor> found = prepare.run({rows.permute({0, 3, 1, 2}).contiguous()});
  const at::Tensor pixels = found[0].to(at::kFloat).contiguous();
  std::cerr << pixels.sizes() << "\n" << found[1] << "\n";
  std::cout.write(static_cast<const char*>(pixels.data_ptr()), pixels.nbytes());
  return 0;
}
