// Convolution and its gradients by oneDNN, one thread to a piece. A batch is cut along the images; fewer images than
// pieces, along the output channels. Weight gradients of the pieces are joined in fixed order.
#include <algorithm>
#include <numeric>

#include "neurim/backend/cpu/onednn.h"
#include "neurim/ops/conv2d.h"

namespace neurim::cpu {

namespace {

using dnnl::prop_kind;

constexpr Layout kBlocked{Layout::blocked, 16, 0};
constexpr auto kDirect = dnnl::algorithm::convolution_direct;

/// A convolution's shapes and options as oneDNN wants them, for the batch or for a piece of it.
struct Problem {
  Type x, weight, y;
  Conv2dOptions options;
  Layout x_layout, y_layout;

  memory::dims stride() const { return {options.stride[0], options.stride[1]}; }
  memory::dims dilation() const { return {options.dilation[0] - 1, options.dilation[1] - 1}; }
  memory::dims pad_begin() const { return {options.pad[0], options.pad[1]}; }
  memory::dims pad_end() const { return {options.pad[2], options.pad[3]}; }
  std::int64_t groups() const { return options.groups; }

  /// The weight as oneDNN sees it: (G,O/G,I,kh,kw) when there are groups.
  Type grouped_weight() const {
    if (groups() == 1) return weight;
    return {weight.dtype, {groups(), weight.shape[0] / groups(), weight.shape[1], weight.shape[2], weight.shape[3]}};
  }
  memory::desc any_weight() const {
    const Type type = grouped_weight();
    return {memory::dims(type.shape.begin(), type.shape.end()), memory::data_type::f32, memory::format_tag::any};
  }
  memory::desc x_desc() const { return descriptor(x, x_layout); }
  memory::desc y_desc() const { return descriptor(y, y_layout); }

  Problem piece(std::int64_t images, std::int64_t channels) const {
    Problem part = *this;
    part.x.shape[0] = part.y.shape[0] = images;
    part.y.shape[1] = part.weight.shape[0] = channels;
    return part;
  }
};

/// Blocked when the channels fill whole blocks; few channels stay plain.
bool fills_blocks(std::int64_t channels) { return channels % 16 == 0; }

/// The layouts for which oneDNN has fast kernels. An image with few channels is read plain.
void choose_layouts(Problem& problem) {
  const std::int64_t in = problem.x.shape[1] / problem.groups(), out = problem.y.shape[1] / problem.groups();
  const bool depthwise = in == 1 && out == 1;
  const bool x_blocks = fills_blocks(problem.x.shape[1]) && (fills_blocks(in) || depthwise);
  const bool y_blocks = fills_blocks(problem.y.shape[1]) && (fills_blocks(out) || depthwise);
  if (y_blocks && (x_blocks || (problem.groups() == 1 && in <= 3))) {
    problem.x_layout = x_blocks ? kBlocked : Layout{};
    problem.y_layout = kBlocked;
  }
}

/// `count` images cut into `pieces` runs of nearly equal length.
std::vector<std::int64_t> cut(std::int64_t count, std::int64_t pieces) {
  std::vector<std::int64_t> begin;
  for (std::int64_t i = 0; i <= pieces; ++i) begin.push_back(count * i / pieces);
  return begin;
}

std::size_t floats(const Type& type, const Layout& layout) { return bytes(type, layout) / sizeof(float); }

// --- forward -------------------------------------------------------------------------------------------------------

/// What follows the convolution in the site.
struct Epilogue {
  bool add = false, relu = false;
  int residual = -1;  ///< site input number
};

/// Reads {conv}, {conv,relu}, {conv,add}, {conv,add,relu}; false: another chain.
bool read_epilogue(const Site& site, Epilogue& epilogue) {
  int value = site.steps[0].out[0];
  for (std::size_t s = 1; s < site.steps.size(); ++s) {
    const Step& step = site.steps[s];
    if (step.op->name() == "add" && !epilogue.add && !epilogue.relu) {
      const int other = step.in[0] == value ? step.in[1] : step.in[0];
      if (other == value || site.values[static_cast<std::size_t>(other)].type != site.values[static_cast<std::size_t>(value)].type)
        return false;
      epilogue.add = true;
      epilogue.residual = static_cast<int>(std::find(site.in.begin(), site.in.end(), other) - site.in.begin());
    } else if (step.op->name() == "relu" && !epilogue.relu) {
      epilogue.relu = true;
    } else {
      return false;
    }
    value = step.out[0];
  }
  return site.out.size() == 1 && site.out[0] == value;
}

Problem forward_problem(const Site& site) {
  Problem problem;
  problem.options = static_cast<const Conv2d&>(site.op()).options;
  problem.x = site.input(0).type;
  problem.weight = site.input(1).type;
  problem.y = site.output(0).type;
  problem.x_layout = site.input(0).layout;
  problem.y_layout = site.output(0).layout;
  return problem;
}

bool all_f32(const Site& site) {
  return std::all_of(site.values.begin(), site.values.end(), [](const Spec& spec) { return spec.type.dtype == DType::f32; });
}

dnnl::convolution_forward::primitive_desc describe_forward(const Problem& problem, const memory::desc& weight, bool bias,
                                                           const Epilogue& epilogue) {
  dnnl::post_ops after;
  if (epilogue.add) after.append_binary(dnnl::algorithm::binary_add, problem.y_desc());
  if (epilogue.relu) after.append_eltwise(dnnl::algorithm::eltwise_relu, 0, 0);
  dnnl::primitive_attr attributes;
  attributes.set_post_ops(after);
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  const auto kind = prop_kind::forward_inference;
  if (bias) {
    const memory::desc bias_desc({problem.y.shape[1]}, memory::data_type::f32, memory::format_tag::a);
    return {engine(),           kind,           kDirect, problem.x_desc(), weight, bias_desc, problem.y_desc(), problem.stride(),
            problem.dilation(), problem.pad_begin(), problem.pad_end(), attributes};
  }
  return {engine(),           kind,           kDirect, problem.x_desc(), weight, problem.y_desc(), problem.stride(),
          problem.dilation(), problem.pad_begin(), problem.pad_end(), attributes};
}

bool forward_wants(Site& site) {
  Epilogue epilogue;
  if (!all_f32(site)) return decline(site, "takes f32 only"), false;
  if (!read_epilogue(site, epilogue)) return decline(site, "fuses add and relu only"), false;
  const OneThread one;
  Problem problem = forward_problem(site);
  problem.x_layout = problem.y_layout = {};
  choose_layouts(problem);
  for (Spec& spec : site.values)
    if (spec.type == problem.y) spec.layout = problem.y_layout;  // every step's output, and the residual
  for (int input : site.in)
    if (input != site.in[0] && (epilogue.residual < 0 || input != site.in[static_cast<std::size_t>(epilogue.residual)]))
      site.values[static_cast<std::size_t>(input)].layout = {};
  try {
    const auto described = describe_forward(problem, problem.any_weight(), site.steps[0].in.size() == 3, epilogue);
    site.values[static_cast<std::size_t>(site.in[1])].layout = packed_layout(problem.grouped_weight(), described.weights_desc());
  } catch (const dnnl::error& error) {
    return decline(site, error.what()), false;
  }
  site.values[static_cast<std::size_t>(site.in[0])].layout = problem.x_layout;
  return true;
}

/// One piece of the batch or of the output channels: offsets in floats, and its primitive.
struct Piece {
  Primitive primitive;
  std::size_t x = 0, weight = 0, bias = 0, y = 0;
  std::size_t scratch = 0;  ///< bytes from the start of the launch's scratch
};

struct Forward {
  std::vector<Piece> pieces;
  bool bias = false;
  int residual = -1;

  static void run(const void* self, const Args& args, int part) noexcept {
    const auto& all = *static_cast<const Forward*>(self);
    const Piece& piece = all.pieces[static_cast<std::size_t>(part)];
    auto at = [](void* base, std::size_t offset) -> void* { return static_cast<float*>(base) + offset; };
    std::array<void*, 6> data{at(args.in[0], piece.x), at(args.in[1], piece.weight), at(args.out[0], piece.y),
                              static_cast<char*>(args.scratch) + piece.scratch};
    std::size_t next = 4;
    if (all.bias) data[next++] = at(args.in[2], piece.bias);
    if (all.residual >= 0) data[next++] = at(args.in[static_cast<std::size_t>(all.residual)], piece.y);
    piece.primitive.run(data.data());
  }
};

Launch forward_prepare(Site& site) {
  const OneThread one;
  Epilogue epilogue;
  read_epilogue(site, epilogue);
  const Problem problem = forward_problem(site);
  const bool bias = site.steps[0].in.size() == 3;
  const std::int64_t images = problem.x.shape[0], channels = problem.y.shape[1];
  const Layout weight_layout = site.input(1).layout;
  const bool cut_channels = images < site.chunks && problem.groups() == 1 && problem.y_layout == kBlocked && images == 1 &&
                            channels % (16 * site.chunks) == 0;
  const auto begin = cut(images, cut_channels ? 1 : std::min<std::int64_t>(images, site.chunks));
  const std::int64_t slices = cut_channels ? site.chunks : 1, slice = channels / slices;
  auto forward = std::make_shared<Forward>();
  forward->bias = bias;
  forward->residual = epilogue.residual;
  const std::size_t x_image = floats(problem.x, problem.x_layout) / static_cast<std::size_t>(images),
                    y_image = floats(problem.y, problem.y_layout) / static_cast<std::size_t>(images),
                    weight_all = bytes(problem.weight, weight_layout) / sizeof(float);
  try {
    for (std::size_t i = 0; i + 1 < begin.size(); ++i)
      for (std::int64_t c = 0; c < slices; ++c) {
        const Problem part = problem.piece(begin[i + 1] - begin[i], slice);
        memory::desc weight = descriptor(problem.grouped_weight(), weight_layout);
        if (slices > 1) {
          const Shape& whole = part.weight.shape;
          weight = weight.submemory_desc({slice, whole[1], whole[2], whole[3]}, {0, 0, 0, 0});
        }
        const auto described = describe_forward(part, weight, bias, epilogue);
        std::vector<std::pair<int, memory::desc>> arguments{{DNNL_ARG_SRC, part.x_desc()},
                                                            {DNNL_ARG_WEIGHTS, weight},
                                                            {DNNL_ARG_DST, part.y_desc()},
                                                            {DNNL_ARG_SCRATCHPAD, described.scratchpad_desc()}};
        if (bias) arguments.emplace_back(DNNL_ARG_BIAS, described.bias_desc());
        if (epilogue.add) arguments.emplace_back(DNNL_ARG_ATTR_MULTIPLE_POST_OP(0) | DNNL_ARG_SRC_1, part.y_desc());
        Piece piece{Primitive(dnnl::convolution_forward(described), std::move(arguments))};
        piece.x = static_cast<std::size_t>(begin[i]) * x_image;
        piece.y = static_cast<std::size_t>(begin[i]) * y_image + static_cast<std::size_t>(c) * (y_image / static_cast<std::size_t>(slices));
        piece.weight = static_cast<std::size_t>(c) * (weight_all / static_cast<std::size_t>(slices));
        piece.bias = static_cast<std::size_t>(c * slice);
        piece.scratch = site.scratch;
        site.scratch += (described.scratchpad_desc().get_size() + 63) / 64 * 64;
        forward->pieces.push_back(std::move(piece));
      }
  } catch (const dnnl::error& error) {
    return decline(site, error.what());
  }
  return {Forward::run, forward, static_cast<int>(forward->pieces.size())};
}

// --- data gradient -------------------------------------------------------------------------------------------------

/// oneDNN wants the forward description as a hint.
dnnl::convolution_forward::primitive_desc hint(const Problem& problem) {
  return {engine(),           prop_kind::forward_training, kDirect, problem.x_desc(), problem.any_weight(), problem.y_desc(),
          problem.stride(), problem.dilation(), problem.pad_begin(), problem.pad_end()};
}

dnnl::convolution_backward_data::primitive_desc describe_input_grad(const Problem& problem, const memory::desc& weight) {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return {engine(),           kDirect,           problem.x_desc(),     weight,            problem.y_desc(), problem.stride(),
          problem.dilation(), problem.pad_begin(), problem.pad_end(), hint(problem), attributes};
}

Problem input_grad_problem(const Site& site) {
  Problem problem;
  problem.options = static_cast<const Conv2dInputGrad&>(site.op()).options;
  problem.x = site.output(0).type;
  problem.weight = site.input(1).type;
  problem.y = site.input(0).type;
  problem.x_layout = site.output(0).layout;
  problem.y_layout = site.input(0).layout;
  return problem;
}

bool input_grad_wants(Site& site) {
  if (!all_f32(site)) return decline(site, "takes f32 only"), false;
  if (site.steps.size() != 1) return decline(site, "fuses nothing"), false;
  const OneThread one;
  Problem problem = input_grad_problem(site);
  problem.x_layout = problem.y_layout = {};
  choose_layouts(problem);
  try {
    const auto described = describe_input_grad(problem, problem.any_weight());
    site.values[static_cast<std::size_t>(site.in[1])].layout = packed_layout(problem.grouped_weight(), described.weights_desc());
  } catch (const dnnl::error& error) {
    return decline(site, error.what()), false;
  }
  site.values[static_cast<std::size_t>(site.in[0])].layout = problem.y_layout;
  site.values[static_cast<std::size_t>(site.out[0])].layout = problem.x_layout;
  return true;
}

struct InputGrad {
  std::vector<Piece> pieces;
  static void run(const void* self, const Args& args, int part) noexcept {
    const Piece& piece = static_cast<const InputGrad*>(self)->pieces[static_cast<std::size_t>(part)];
    void* data[] = {static_cast<float*>(args.in[0]) + piece.y, args.in[1], static_cast<float*>(args.out[0]) + piece.x,
                    static_cast<char*>(args.scratch) + piece.scratch};
    piece.primitive.run(data);
  }
};

Launch input_grad_prepare(Site& site) {
  const OneThread one;
  const Problem problem = input_grad_problem(site);
  const std::int64_t images = problem.x.shape[0];
  const auto begin = cut(images, std::min<std::int64_t>(images, site.chunks));
  const memory::desc weight = descriptor(problem.grouped_weight(), site.input(1).layout);
  auto all = std::make_shared<InputGrad>();
  try {
    for (std::size_t i = 0; i + 1 < begin.size(); ++i) {
      const Problem part = problem.piece(begin[i + 1] - begin[i], problem.y.shape[1]);
      const auto described = describe_input_grad(part, weight);
      Piece piece{Primitive(dnnl::convolution_backward_data(described), {{DNNL_ARG_DIFF_DST, part.y_desc()},
                                                                         {DNNL_ARG_WEIGHTS, weight},
                                                                         {DNNL_ARG_DIFF_SRC, part.x_desc()},
                                                                         {DNNL_ARG_SCRATCHPAD, described.scratchpad_desc()}})};
      piece.x = static_cast<std::size_t>(begin[i]) * (floats(problem.x, problem.x_layout) / static_cast<std::size_t>(images));
      piece.y = static_cast<std::size_t>(begin[i]) * (floats(problem.y, problem.y_layout) / static_cast<std::size_t>(images));
      piece.scratch = site.scratch;
      site.scratch += (described.scratchpad_desc().get_size() + 63) / 64 * 64;
      all->pieces.push_back(std::move(piece));
    }
  } catch (const dnnl::error& error) {
    return decline(site, error.what());
  }
  return {InputGrad::run, all, static_cast<int>(all->pieces.size())};
}

// --- weight gradient -----------------------------------------------------------------------------------------------

dnnl::convolution_backward_weights::primitive_desc describe_weight_grad(const Problem& problem, const memory::desc& weight) {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return {engine(),           kDirect,           problem.x_desc(),     weight,            problem.y_desc(), problem.stride(),
          problem.dilation(), problem.pad_begin(), problem.pad_end(), hint(problem), attributes};
}

Problem weight_grad_problem(const Site& site) {
  Problem problem;
  problem.options = static_cast<const Conv2dWeightGrad&>(site.op()).options;
  problem.y = site.input(0).type;
  problem.x = site.input(1).type;
  problem.weight = site.output(0).type;
  problem.y_layout = site.input(0).layout;
  problem.x_layout = site.input(1).layout;
  return problem;
}

bool weight_grad_wants(Site& site) {
  if (!all_f32(site)) return decline(site, "takes f32 only"), false;
  if (site.steps.size() != 1) return decline(site, "fuses nothing"), false;
  const OneThread one;
  Problem problem = weight_grad_problem(site);
  problem.x_layout = problem.y_layout = {};
  choose_layouts(problem);
  try {
    const auto described = describe_weight_grad(problem, problem.any_weight());
    site.values[static_cast<std::size_t>(site.out[0])].layout =
        packed_layout(problem.grouped_weight(), described.diff_weights_desc());
  } catch (const dnnl::error& error) {
    return decline(site, error.what()), false;
  }
  site.values[static_cast<std::size_t>(site.in[0])].layout = problem.y_layout;
  site.values[static_cast<std::size_t>(site.in[1])].layout = problem.x_layout;
  return true;
}

/// The first piece writes the output, the others partial sums in the scratch; the second phase adds them, each join part a
/// range of the weight.
struct WeightGrad {
  std::vector<Piece> pieces;
  std::vector<std::int64_t> ranges;  ///< of the joins, in floats
  std::size_t size = 0;              ///< floats of one weight
  std::size_t partials = 0;          ///< where the partial sums begin, bytes of scratch

  float* partial(const Args& args, std::size_t piece) const {
    if (piece == 0) return static_cast<float*>(args.out[0]);
    return reinterpret_cast<float*>(static_cast<char*>(args.scratch) + partials) + (piece - 1) * size;
  }

  static void run(const void* self, const Args& args, int part) noexcept {
    const auto& all = *static_cast<const WeightGrad*>(self);
    const auto number = static_cast<std::size_t>(part);
    if (number < all.pieces.size()) {
      const Piece& piece = all.pieces[number];
      void* data[] = {static_cast<float*>(args.in[0]) + piece.y, static_cast<float*>(args.in[1]) + piece.x,
                      all.partial(args, number), static_cast<char*>(args.scratch) + piece.scratch};
      piece.primitive.run(data);
      return;
    }
    const std::size_t join = number - all.pieces.size();
    float* sum = all.partial(args, 0);
    for (std::size_t p = 1; p < all.pieces.size(); ++p) {
      const float* added = all.partial(args, p);
      for (std::int64_t i = all.ranges[join]; i < all.ranges[join + 1]; ++i) sum[i] += added[i];
    }
  }
};

Launch weight_grad_prepare(Site& site) {
  const OneThread one;
  const Problem problem = weight_grad_problem(site);
  const std::int64_t images = problem.x.shape[0];
  const auto begin = cut(images, std::min<std::int64_t>(images, site.chunks));
  const memory::desc weight = descriptor(problem.grouped_weight(), site.output(0).layout);
  auto all = std::make_shared<WeightGrad>();
  all->size = weight.get_size() / sizeof(float);
  try {
    for (std::size_t i = 0; i + 1 < begin.size(); ++i) {
      const Problem part = problem.piece(begin[i + 1] - begin[i], problem.y.shape[1]);
      const auto described = describe_weight_grad(part, weight);
      Piece piece{Primitive(dnnl::convolution_backward_weights(described), {{DNNL_ARG_DIFF_DST, part.y_desc()},
                                                                            {DNNL_ARG_SRC, part.x_desc()},
                                                                            {DNNL_ARG_DIFF_WEIGHTS, weight},
                                                                            {DNNL_ARG_SCRATCHPAD, described.scratchpad_desc()}})};
      piece.x = static_cast<std::size_t>(begin[i]) * (floats(problem.x, problem.x_layout) / static_cast<std::size_t>(images));
      piece.y = static_cast<std::size_t>(begin[i]) * (floats(problem.y, problem.y_layout) / static_cast<std::size_t>(images));
      piece.scratch = site.scratch;
      site.scratch += (described.scratchpad_desc().get_size() + 63) / 64 * 64;
      all->pieces.push_back(std::move(piece));
    }
  } catch (const dnnl::error& error) {
    return decline(site, error.what());
  }
  all->partials = site.scratch;
  site.scratch += (all->pieces.size() - 1) * all->size * sizeof(float);
  const int joins = all->pieces.size() > 1 ? site.chunks : 0;
  all->ranges = cut(static_cast<std::int64_t>(all->size), std::max(joins, 1));
  return {WeightGrad::run, all, static_cast<int>(all->pieces.size()), joins};
}

}  // namespace

}  // namespace neurim::cpu

namespace neurim {

void cpu_onednn_conv2d() {
  add({.op = "conv2d", .name = "onednn", .rank = 10, .prepare = cpu::forward_prepare, .wants = cpu::forward_wants, .fuses = true});
  add({.op = "conv2d_input_grad", .name = "onednn", .rank = 10, .prepare = cpu::input_grad_prepare, .wants = cpu::input_grad_wants});
  add({.op = "conv2d_weight_grad", .name = "onednn", .rank = 10, .prepare = cpu::weight_grad_prepare, .wants = cpu::weight_grad_wants});
}

}  // namespace neurim
