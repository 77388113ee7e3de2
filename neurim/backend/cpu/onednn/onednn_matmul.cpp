// Matrix products and fully connected layers by oneDNN, one thread for each task: a run of rows of the result, or of
// columns if there are few rows. Pointwise steps run over a piece of the result while it is in the task's cache.
#include <algorithm>
#include <map>
#include <optional>

#include "neurim/backend/cpu/common/physical.h"
#include "neurim/backend/cpu/common/priorities.h"
#include "neurim/backend/cpu/matmul/matmul.h"
#include "neurim/backend/cpu/onednn/common/onednn.h"
#include "neurim/backend/cpu/pointwise/pointwise.h"
#include "neurim/hardware/isa.h"

namespace neurim::cpu {

namespace {

/// Whether tasks are runs of rows, not columns, so that each reads only its part of the larger operand.
bool by_rows(const Product& product) { return product.m >= product.n; }

/// What one call computes: offsets of operands and result in floats, and the runs of the result's memory.
struct Piece {
  Primitive primitive;
  std::size_t a = 0, b = 0, bias = 0, c = 0;
  std::int64_t run = 0, runs = 1, stride = 0;
};

constexpr std::int64_t kRows = 256;  // of a task, to pay for reading the other operand

struct Matmuls {
  bool bias = false;
  std::optional<PointwiseSteps> steps;
  int result, last;                        // indices of outputs: of the product and of the last step
  std::vector<std::vector<Piece>> pieces;  // of each task

  static void run(const void* self, const Args& args, int task) noexcept {
    const auto& all = *static_cast<const Matmuls*>(self);
    const auto number = static_cast<std::size_t>(task);
    const auto at = [](void* base, std::size_t offset) -> void* { return static_cast<float*>(base) + offset; };
    const auto output = [&](int place) { return static_cast<float*>(args.out[place]); };
    float *const result = output(all.result), *const last = output(all.last);
    for (const Piece& piece : all.pieces[number]) {
      void* const data[] = {at(args.in[0], piece.a), at(args.in[1], piece.b), at(result, piece.c), args.workspace,
                            all.bias ? at(args.in[2], piece.bias) : nullptr};
      piece.primitive.run(data, args.status);
      for (std::int64_t run = 0; all.steps && run < piece.runs; ++run) {
        const std::int64_t begin = static_cast<std::int64_t>(piece.c) + run * piece.stride;
        all.steps->run(args, result, last, begin, begin + piece.run);
      }
    }
  }
};

/// The primitive for so many rows and columns of the result, and the bytes of its workspace. Throws dnnl::error.
std::pair<Primitive, std::size_t> primitive_of(const Product& product, std::int64_t m, std::int64_t n) {
  const auto f32 = memory::data_type::f32;
  const memory::desc a({product.batch, m, product.k}, f32, {product.m * product.k, product.a_row, product.a_column}),
      b({product.batch, product.k, n}, f32, {product.k * product.n, product.b_row, product.b_column}),
      c({product.batch, m, n}, f32, {product.m * product.n, product.n, 1}), bias({1, 1, n}, f32, memory::dims{n, n, 1});
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  const auto described = product.bias ? dnnl::matmul::primitive_desc(engine(), a, b, bias, c, attributes)
                                      : dnnl::matmul::primitive_desc(engine(), a, b, c, attributes);
  std::vector<std::pair<int, memory::desc>> arguments{
      {DNNL_ARG_SRC, a}, {DNNL_ARG_WEIGHTS, b}, {DNNL_ARG_DST, c}, {DNNL_ARG_SCRATCHPAD, described.scratchpad_desc()}};
  if (product.bias) arguments.emplace_back(DNNL_ARG_BIAS, bias);
  return {Primitive(dnnl::matmul(described), std::move(arguments)), described.scratchpad_desc().get_size()};
}

bool propose_layouts(KernelRequest& request) {
  Product product;
  ask_rows(request);
  return read_product(request, product) &&
         (request.steps.size() == 1 || PointwiseSteps().read(request, 1, request.steps.size()));
}

Launch prepare(KernelRequest& request) {
  Product product;
  if (!read_product(request, product)) return {};
  if (isa() == Isa::avx2 && product.walks_few_places())
    return decline(
        request,
        "leaves weight gradients of many rows that lie multiples of 2 KiB apart to others, where it has no AVX-512");
  const Creation creation;
  auto all = std::make_shared<Matmuls>();
  all->bias = product.bias;
  all->result = memory_of(request, 0);
  all->last = memory_of(request, request.steps.size() - 1);
  if (request.steps.size() > 1 && !all->steps.emplace().read(request, 1, request.steps.size())) return {};
  const bool rows = by_rows(product);
  const std::int64_t whole = rows ? product.m : product.n,
                     tasks = std::min(whole, request.tasks_for(rows ? product.m / kRows : 1));
  const std::int64_t most = all->steps && rows ? std::max<std::int64_t>(64, kPiece / product.n)
                                               : whole;  // rows or columns of a piece
  std::map<std::int64_t, Primitive> known;
  std::size_t own = 0;
  try {
    for (std::int64_t task = 0; task < tasks; ++task) {
      std::vector<Piece>& pieces = all->pieces.emplace_back();
      const std::int64_t begin = whole * task / tasks, count = whole * (task + 1) / tasks - begin,
                         calls = (count + most - 1) / most;
      for (std::int64_t call = 0; call < calls; ++call) {
        const std::int64_t first = begin + count * call / calls, last = begin + count * (call + 1) / calls;
        Primitive& primitive = known[last - first];
        if (!primitive) {
          const auto [made, scratch] = primitive_of(product, rows ? last - first : product.m,
                                                    rows ? product.n : last - first);
          primitive = made;
          own = std::max(own, scratch);
        }
        Piece& piece = pieces.emplace_back(Piece{primitive});
        piece.a = rows ? first * product.a_row : 0;
        piece.b = rows ? 0 : first * product.b_column;
        piece.c = rows ? first * product.n : first;
        piece.run = rows ? (last - first) * product.n : last - first;
        if (!rows) piece.runs = product.m, piece.stride = product.n;
        piece.bias = rows ? 0 : first;
      }
    }
  } catch (const dnnl::error& error) {
    return decline(request, refusal(error));
  }
  return {Matmuls::run, all, static_cast<int>(all->pieces.size()), 0, request.chunks, own};
}

}  // namespace

}  // namespace neurim::cpu

namespace neurim {

void cpu_onednn_matmul() {
  cpu::add_kernel({.op = "linear",
                   .name = "onednn",
                   .prepare = cpu::prepare,
                   .propose_layouts = cpu::propose_layouts,
                   .fuses = true});
  cpu::add_kernel({.op = "matmul",
                   .name = "onednn",
                   .prepare = cpu::prepare,
                   .propose_layouts = cpu::propose_layouts,
                   .fuses = true});
}

}  // namespace neurim
