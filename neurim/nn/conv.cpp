#include "neurim/nn/conv.h"

#include <algorithm>
#include <charconv>

#include "neurim/base/error.h"
#include "neurim/ops/conv.h"
#include "neurim/ops/pad.h"

namespace neurim::nn {

template <std::size_t N>
Padding<N> Padding<N>::named(std::string_view word) {
  require(word == "same" || word == "valid", "padding is \"", word,
          "\"; it is \"same\", \"valid\" or the size at both ends of each axis");
  Padding padding = 0;
  padding.same = word == "same";
  return padding;
}

template <std::size_t N>
std::array<std::int64_t, 2 * N> Padding<N>::ends(const Size<N>& kernel, const Size<N>& dilation) const {
  std::array<std::int64_t, 2 * N> ends = both_ends(size);
  for (std::size_t axis = 0; same && axis < N; ++axis) {
    const std::int64_t total = dilation[axis] * (kernel[axis] - 1);
    ends[axis] = total / 2;
    ends[axis + N] = total - total / 2;
  }
  return ends;
}

template <std::size_t N>
void field(Fields& f, std::string_view name, Padding<N>& pad) {
  std::vector<std::string> sizes;
  for (const std::int64_t size : pad.size.each) sizes.push_back(text(size));
  std::string word = pad.same ? "same" : join(sizes, ",");
  f(name, word);
  std::vector<std::int64_t> numbers;
  for (const std::string& part : split(word, ',')) {
    const char* end = part.data() + part.size();
    const auto [stop, error] = std::from_chars(part.data(), end, numbers.emplace_back());
    if (error != std::errc() || stop != end) {
      pad = Padding<N>(word);
      return;
    }
  }
  require(numbers.size() == 1 || numbers.size() == N, name, ": takes a word, one number", N == 1 ? "" : text(" or ", N),
          ", got ", numbers.size());
  Size<N> both = numbers[0];
  if (numbers.size() == N) std::copy(numbers.begin(), numbers.end(), both.each.begin());
  pad = both;
}

template <std::size_t N>
Conv<N>::Conv(std::int64_t in, std::int64_t out) : Conv(in, out, Config{}) {}

template <std::size_t N>
Conv<N>::Conv(std::int64_t in, std::int64_t out, const Config& c) : config(c) {
  const std::string who = text("Conv", N, "d");
  const auto& kernel = c.kernel.each;
  require(in > 0 && out > 0 && c.groups > 0 && *std::min_element(kernel.begin(), kernel.end()) > 0, who, ": channels (",
          in, " to ", out, "), groups (", c.groups, ") and kernel ", Shape(kernel), " must be 1 or more");
  require(in % c.groups == 0 && out % c.groups == 0, who, ": ", c.groups, " groups do not fit: ", in, " input and ",
          out, " output channels must both be multiples of groups");
  require(!c.pad.same || c.stride.each == each_axis<N>(1), who, ": padding \"same\" takes stride 1, not ",
          Shape(c.stride.each), "; give the padding as numbers");
  require(c.padding_mode == "zeros" || c.padding_mode == "reflect" || c.padding_mode == "replicate" ||
              c.padding_mode == "circular",
          who, ": padding_mode is \"", c.padding_mode,
          "\"; it is \"zeros\", \"reflect\", \"replicate\" or \"circular\"");
  Shape shape{out, in / c.groups};
  for (const std::int64_t size : kernel) shape.push_back(size);
  weight = parameter(shape, c.init(shape));
  if (c.bias) bias = parameter({out}, c.bias_init(shape));
}

template <std::size_t N>
void Conv<N>::parts(Parts& p) {
  p("weight", weight, config.init(weight.shape()))("bias", bias, config.bias_init(weight.shape()));
}

template <std::size_t N>
Tensor Conv<N>::operator()(const Tensor& x) const {
  ConvOptions<N> options{.stride = config.stride,
                         .dilation = config.dilation,
                         .pad = config.pad.ends(config.kernel, config.dilation),
                         .groups = config.groups};
  if (config.padding_mode == "zeros") return conv(x, weight, bias, options);
  std::vector<std::int64_t> around(2 * N + 4);
  std::copy_n(options.pad.begin(), N, around.begin() + 2);
  std::copy_n(options.pad.begin() + N, N, around.end() - N);
  options.pad = {};
  return conv(pad(x, around, config.padding_mode), weight, bias, options);
}

template struct Padding<1>;
template struct Padding<2>;
template struct Padding<3>;
template void field(Fields&, std::string_view, Padding<1>&);
template void field(Fields&, std::string_view, Padding<2>&);
template void field(Fields&, std::string_view, Padding<3>&);
template struct Conv<1>;
template struct Conv<2>;
template struct Conv<3>;

}  // namespace neurim::nn
