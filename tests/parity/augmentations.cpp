// Applies one operation to a raw image, for augmentations_test.py to compare with Pillow and torchvision:
//   augmentations HEIGHT WIDTH CHANNELS NAME [VALUE…] < pixels > pixels
//   augmentations HEIGHT WIDTH DRAWS auto-POLICY           prints the steps of so many draws, one line each:
//                                                          "operation value operation value"
#include <cmath>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <map>

#include "neurim/base/error.h"
#include "neurim/data/augmentations/filters.h"
#include "neurim/data/augmentations/geometry.h"
#include "neurim/data/augmentations/pixel_values.h"
#include "neurim/data/augmentations/policies.h"
#include "neurim/data/resample.h"

namespace neurim {
namespace {

using Values = std::vector<double>;
using Apply = std::function<void(Image&, Scratch&, const Values&)>;

Interpolation interpolation(double value) { return value == 0 ? Interpolation::nearest : Interpolation::bilinear; }

void move(const Warp& by, double how, double fill, Image& image, Scratch& scratch) {
  warp(by, interpolation(how), static_cast<std::uint8_t>(fill), image, scratch);
}

std::array<Point, 4> corners(const Values& v, std::size_t at) {
  return {{{v[at], v[at + 1]}, {v[at + 2], v[at + 3]}, {v[at + 4], v[at + 5]}, {v[at + 6], v[at + 7]}}};
}

const std::map<std::string, Apply> kOperations{
    {"hflip", [](Image& i, Scratch&, const Values&) { flip_horizontally(i); }},
    {"vflip", [](Image& i, Scratch&, const Values&) { flip_vertically(i); }},
    {"rotate",
     [](Image& i, Scratch& s, const Values& v) { move(rotation(v[2], i.height(), i.width()), v[0], v[1], i, s); }},
    {"affine",
     [](Image& i, Scratch& s, const Values& v) {
       const Point center{i.width() / 2.0, i.height() / 2.0};
       move(affine(v[2], {v[3], v[4]}, v[5], v[6], v[7], center), v[0], v[1], i, s);
     }},
    {"perspective",
     [](Image& i, Scratch& s, const Values& v) { move(perspective(corners(v, 2), corners(v, 10)), v[0], v[1], i, s); }},
    {"brightness", [](Image& i, Scratch&, const Values& v) { adjust_brightness(i, v[0]); }},
    {"contrast", [](Image& i, Scratch&, const Values& v) { adjust_contrast(i, v[0]); }},
    {"saturation", [](Image& i, Scratch&, const Values& v) { adjust_saturation(i, v[0]); }},
    {"hue", [](Image& i, Scratch&, const Values& v) { adjust_hue(i, v[0]); }},
    {"gray", [](Image& i, Scratch&, const Values&) { to_gray(i); }},
    {"gamma", [](Image& i, Scratch&, const Values& v) { adjust_gamma(i, v[0], v[1]); }},
    {"invert", [](Image& i, Scratch&, const Values&) { invert(i); }},
    {"solarize", [](Image& i, Scratch&, const Values& v) { solarize(i, static_cast<int>(v[0])); }},
    {"posterize", [](Image& i, Scratch&, const Values& v) { posterize(i, static_cast<int>(v[0])); }},
    {"equalize", [](Image& i, Scratch&, const Values&) { equalize(i); }},
    {"autocontrast", [](Image& i, Scratch&, const Values&) { autocontrast(i); }},
    {"blur", [](Image& i, Scratch& s, const Values& v) { blur(i, static_cast<int>(v[0]), v[1], s); }},
    {"sharpness", [](Image& i, Scratch& s, const Values& v) { adjust_sharpness(i, v[0], s); }},
    {"resize",
     [](Image& i, Scratch&, const Values& v) {
       const int height = static_cast<int>(v[1]), width = static_cast<int>(v[2]);
       Image out;
       out.reshape({height, width, i.channels()});
       Resampler(static_cast<Interpolation>(v[0])).resize(i, i.box(), height, width, out.box(), out);
       i = out;
     }},
    {"step", [](Image& i, Scratch& s,
                const Values& v) { apply_step({static_cast<Operation>(static_cast<int>(v[0])), v[1]}, i, s); }},
};

void print_draws(AutoPolicy policy, ImageSize size) {
  Random random(1);
  for (int i = 0; i < size.channels; ++i) {
    const Steps steps = draw_auto_augment(policy, size.height, size.width, random);
    for (int k = 0; k < steps.count; ++k) {
      const Step& step = steps.list[k];
      std::cout << static_cast<int>(step.operation) << ' ' << step.value << ' ';
    }
    std::cout << '\n';
  }
}

int run(int count, char** words) {
  require(count >= 5, "usage: changes HEIGHT WIDTH CHANNELS NAME [VALUE...]");
  const ImageSize size{std::atoi(words[1]), std::atoi(words[2]), std::atoi(words[3])};
  const std::string name = words[4];
  const std::map<std::string, AutoPolicy> policies{
      {"auto-imagenet", AutoPolicy::imagenet}, {"auto-cifar10", AutoPolicy::cifar10}, {"auto-svhn", AutoPolicy::svhn}};
  if (const auto policy = policies.find(name); policy != policies.end()) {
    print_draws(policy->second, size);
    return 0;
  }
  Image image;
  Scratch scratch;
  image.reshape(size);
  std::cin.read(reinterpret_cast<char*>(image.data()), static_cast<std::streamsize>(size.bytes()));
  Values values;
  for (int i = 5; i < count; ++i) values.push_back(std::atof(words[i]));
  kOperations.at(name)(image, scratch, values);
  std::cout.write(reinterpret_cast<const char*>(image.data()), static_cast<std::streamsize>(image.size().bytes()));
  return 0;
}

}  // namespace
}  // namespace neurim

int main(int count, char** words) { return neurim::run(count, words); }
