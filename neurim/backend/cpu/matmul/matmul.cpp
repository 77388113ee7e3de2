// Matrix products, also of fully connected layers in training, by the blocked product of the convolutions. First b is
// packed, in blocks of 16 columns. Then each task, a run of rows, works tile by tile: it packs some rows and a range of
// the depth of a, in blocks of 16 numbers of a row, which stay in the second-level cache while all of b is read. In a
// batch of products, a task takes some of them and packs each b itself.
//
// Where oneDNN is built in, it has priority: its products are as fast or up to 5 % faster. It does not have it in plans
// of 16-bit compute dtype and for some weight gradients (Product::walks_few_places). Constant weights are packed once;
// if they are larger than the rows, a task is a run of columns, which reads only its own weights.
#include "neurim/backend/cpu/matmul/matmul.h"

#include <algorithm>
#include <optional>

#include "neurim/backend/cpu/common/block_product.h"
#include "neurim/backend/cpu/common/panels.h"
#include "neurim/backend/cpu/common/physical.h"
#include "neurim/backend/cpu/common/priorities.h"
#include "neurim/backend/cpu/packing/vnni_weights.h"
#include "neurim/backend/cpu/pointwise/pointwise.h"
#include "neurim/ops/matmul.h"

namespace neurim {

namespace {

using namespace cpu;

constexpr std::int64_t kLanes = 16, kBlocks = 16, kDepth = 512;
// the most rows that stay in registers beside two blocks; a tile is a multiple of it
constexpr std::int64_t kGroup = 14;
constexpr std::int64_t kTile = 100 * 1024;  // floats of a in a tile

struct Multiply {
  Product product;
  StorageDtype pairs = StorageDtype::exact;  ///< storage of the factors
  Panels columns;                            ///< of b
  bool packed = false;                       ///< whether b is packed as vnni_weights() beforehand
  bool by_columns = false;                   ///< whether tasks are runs of columns
  std::int64_t rows;                         ///< of a tile, at most
  int packers,
      tasks;  ///< tasks of the first phase, none for a batch, and of the second: runs of rows, columns or products
  int result, last;  ///< indices of outputs: of the product and of the last step
  std::optional<PointwiseSteps> steps;

  std::int64_t deepest() const { return pairs ? 2 * kDepth : kDepth; }
  std::int64_t depth() const { return std::min(product.k, deepest()); }
  /// Panels of `count` rows of a, 16 numbers of each row in a block.
  Panels panels(std::int64_t count, std::int64_t deep) const {
    return {1, false, count, deep, product.a_column, product.a_row};
  }
  std::int64_t room() const {
    return panels(rows, depth()).floats() + rows * kLanes;
  }  ///< floats: a, and the last columns

  static void run(const void* self, const Args& args, int task) noexcept {
    const auto& own = *static_cast<const Multiply*>(self);
    if (task >= own.packers)
      return own.batched() ? own.multiply_batch(args, task) : own.multiply_piece(args, task - own.packers);
    const std::int64_t count = own.columns.count();
    NEURIM_DISPATCH(pack_panels)
    (own.columns, static_cast<const float*>(args.in[1]), static_cast<float*>(args.scratch),
     task_begin(count, own.packers, task), task_begin(count, own.packers, task + 1));
  }

  bool batched() const { return product.batch > 1; }
  float* output(const Args& args, int place) const { return static_cast<float*>(args.out[place]); }

  /// The rows and blocks of columns of c that a task computes.
  struct Piece {
    std::int64_t first_row, last_row, first_block, last_block;
  };
  std::int64_t blocks() const { return blocks_of(product.n); }
  std::int64_t block_floats() const {
    return packed ? blocks_of(product.k) * kLanes * kLanes / 2 : columns.block_floats();
  }
  std::int64_t packed_here() const {
    return packed ? 0 : columns.floats();
  }  ///< floats, for all tasks; for a batch, of each task

  void multiply_piece(const Args& args, int task) const {
    const auto begin = [&](std::int64_t all, int number) { return task_begin(all, tasks, number); };
    const Piece piece = by_columns ? Piece{0, product.m, begin(blocks(), task), begin(blocks(), task + 1)}
                                   : Piece{begin(product.m, task), begin(product.m, task + 1), 0, blocks()};
    multiply(args, 0, static_cast<const float*>(packed ? args.in[1] : args.scratch),
             static_cast<float*>(args.workspace), piece);
  }

  void multiply_batch(const Args& args, int task) const {
    float* const b = static_cast<float*>(args.workspace);
    for (std::int64_t item = task_begin(product.batch, tasks, task); item < task_begin(product.batch, tasks, task + 1);
         ++item) {
      NEURIM_DISPATCH(pack_panels)
      (columns, static_cast<const float*>(args.in[1]) + item * product.k * product.n, b, 0, columns.count());
      multiply(args, item, b, b + columns.floats(), {0, product.m, 0, blocks()});
    }
  }

  /// Computes a piece of one product of the batch, with b packed and a workspace for a.
  void multiply(const Args& args, std::int64_t item, const float* b, float* a, const Piece& piece) const {
    float* const end = a + panels(rows, depth()).floats();
    const float* const from = static_cast<const float*>(args.in[0]) + item * product.m * product.k;
    const std::int64_t first = piece.first_block * kLanes, end_column = std::min(piece.last_block * kLanes, product.n);
    for (std::int64_t row = piece.first_row; row < piece.last_row; row += rows) {
      const std::int64_t count = std::min(rows, piece.last_row - row);
      float* const c = output(args, result) + (item * product.m + row) * product.n;
      for (std::int64_t k = 0; k < product.k; k += deepest()) {
        const std::int64_t deep = std::min(deepest(), product.k - k);
        const std::int64_t a_block = pack_rows(from + row * product.a_row + k * product.a_column, count, deep, a);
        add_depth(args, piece, count, k, deep, a_block, a, b, c, end);
      }
      if (!steps) continue;
      const std::int64_t together = end_column - first == product.n ? count : 1;  // contiguous rows
      for (std::int64_t r = row; r < row + count; r += together)
        steps->run(args, output(args, result), output(args, last), r * product.n + first,
                   (r + together - 1) * product.n + end_column);
    }
  }

  /// Packs `count` rows of a over a range of the depth. Returns the distance between blocks.
  std::int64_t pack_rows(const float* from, std::int64_t count, std::int64_t deep, float* to) const {
    if (pairs && product.a_column == 1 && deep % kLanes == 0) {
      NEURIM_DISPATCH(round_to_pairs)(pairs, from, kLanes, product.a_row, count, deep, to);
      return count * kLanes / 2;
    }
    const Panels of_rows = panels(count, deep);
    NEURIM_DISPATCH(pack_panels)(of_rows, from, to, 0, of_rows.count());
    if (!pairs) return of_rows.block_floats();
    NEURIM_DISPATCH(round_to_pairs)
    (pairs, to, of_rows.block_floats(), kLanes, count, deep, to);  // in place: a row never lies after its source
    return count * kLanes / 2;
  }

  /// Adds the products of a range of the depth to `count` rows of c. Columns that do not fill a block are collected in
  /// `end`.
  void add_depth(const Args& args, const Piece& piece, std::int64_t count, std::int64_t k, std::int64_t deep,
                 std::int64_t a_block, const float* a, const float* b, float* c, float* end) const {
    const std::int64_t b_block = block_floats(), whole = std::min(product.n / kLanes, piece.last_block),
                       rest = product.n % kLanes;
    const auto make = [&](std::int64_t block, std::int64_t together, float* to, std::int64_t apart) {
      alignas(64) float biases[kBlocks * kLanes] = {};
      if (product.bias)
        std::copy_n(static_cast<const float*>(args.in[2]) + block * kLanes,
                    std::min(together * kLanes, product.n - block * kLanes), biases);
      const BlockProduct shape{.rows = count,
                               .in_channels = deep,
                               .x_block = a_block,
                               .weight_block = b_block,
                               .y_block = kLanes,
                               .pairs = pairs,
                               .y_row = apart};
      const BlockEpilogue epilogue{.bias = k == 0 ? biases : nullptr, .add = k == 0 ? nullptr : to};
      NEURIM_DISPATCH(block_product)
      (shape, together, a, b + block * b_block + (pairs ? k / 2 : k) * kLanes, epilogue, to);
    };
    for (std::int64_t block = piece.first_block; block < whole; block += kBlocks)
      make(block, std::min(kBlocks, whole - block), c + block * kLanes, product.n);
    if (rest == 0 || piece.last_block < blocks()) return;
    make(whole, 1, end, kLanes);
    if (k + deep == product.k)
      for (std::int64_t row = 0; row < count; ++row)
        std::copy_n(end + row * kLanes, rest, c + row * product.n + whole * kLanes);
  }
};

/// Whether the weights are constant: those of a fully connected layer, read as pairs in plans of 16-bit compute dtype.
bool has_constant_weights(const KernelRequest& request) {
  return request.op().name() == "linear" && request.input(1).constant && !request.input(0).constant;
}
Layout weights_layout(const KernelRequest& request) { return vnni_weights(request.input(1).type, request.storage()); }

/// Reads the request. If not possible, sets request.why.
bool read(KernelRequest& request, Product& product, std::optional<PointwiseSteps>& steps) {
  if (!read_product(request, product)) return false;
  return request.steps.size() == 1 || steps.emplace().read(request, 1, request.steps.size());
}

bool propose_layouts(KernelRequest& request) {
  Multiply all;
  ask_rows(request);
  return read(request, all.product, all.steps);
}

Launch prepare(KernelRequest& request) {
  auto all = std::make_shared<Multiply>();
  const Product& p = all->product;
  if (!read(request, all->product, all->steps)) return {};
  all->result = memory_of(request, 0), all->last = memory_of(request, request.steps.size() - 1);
  all->pairs = request.storage();
  if (all->pairs) request.used_dtype = request.compute_dtype;
  all->packed = all->pairs && has_constant_weights(request) && request.input(1).layout == weights_layout(request);
  all->by_columns = all->packed && p.n > p.m;
  all->columns = {1, false, p.k, p.n, p.b_column, p.b_row, all->pairs};
  all->packers = all->batched() || all->packed
                     ? 0
                     : static_cast<int>(std::min<std::int64_t>(all->columns.count(), request.chunks));
  const std::int64_t longest = all->batched() || all->by_columns ? p.m : (p.m + request.chunks - 1) / request.chunks,
                     most = all->steps ? std::min(kTile / all->depth(), kPiece / p.n) : kTile / all->depth(),
                     fitting = std::max(most / kGroup, std::int64_t{1}) * kGroup,
                     tiles = (longest + fitting - 1) / fitting;
  all->rows = ((longest + tiles - 1) / tiles + kGroup - 1) / kGroup * kGroup;
  all->tasks = all->batched() ? static_cast<int>(std::min<std::int64_t>(p.batch, request.chunks)) : request.chunks;
  const std::int64_t shared = all->batched() ? 0 : all->packed_here();
  request.scratch = shared * sizeof(float);
  const std::size_t own = (all->packed_here() - shared + all->room()) * sizeof(float);
  if (all->packers == 0) return {Multiply::run, all, all->tasks, 0, request.chunks, own};
  return {Multiply::run, all, all->packers, all->tasks, request.chunks, own};
}

/// In plans of 16-bit compute dtype: large products of two operands that change, since constant ones would be packed in
/// each call, and fully connected layers with constant weights, which are packed once.
bool may_store_as(KernelRequest& request) {
  Product product;
  if (!request.storage()) return decline(request, "rounds to 16 bits, which the plan does not allow"), false;
  const bool packed = has_constant_weights(request);
  if (request.input(0).constant || (request.input(1).constant && !packed))
    return decline(request, "rounds no constant operands"), false;
  if (!read_product(request, product)) return false;
  if (packed && request.input(1).layout != weights_layout(request))
    return decline(request, "takes constant weights in pairs"), false;
  constexpr std::int64_t kLeast = 16,
                         kWork = 1 << 18;  // multiply-adds; below, packing both operands costs as much as the product
  const std::int64_t rows = packed ? 2 : kLeast;
  if (product.m < rows || std::min(product.n, product.k) < kLeast || product.m * product.n * product.k < kWork)
    return decline(request, "rounds products of ", rows, " rows, ", kLeast, " columns and terms and more, and ", kWork,
                   " multiply-adds"),
           false;
  return true;
}
bool wants_rounded(KernelRequest& request) {
  if (!propose_layouts(request)) return false;
  if (request.storage() && has_constant_weights(request))
    request.values[request.in[1]].layout = weights_layout(request);
  return may_store_as(request);
}
Launch prepare_rounded(KernelRequest& request) { return may_store_as(request) ? prepare(request) : Launch(); }

}  // namespace

bool cpu::Product::walks_few_places() const {
  constexpr std::int64_t kApart = 128, kFew = 512, kLeast = 256, kRows = 1024;
  const bool gradient = batch == 1 && a_row == 1 && b_column == 1 && k >= kRows && std::min(m, n) >= kLeast;
  return gradient && a_column % kApart == 0 && b_row % kApart == 0 && (a_column % kFew == 0 || b_row % kFew == 0);
}

void cpu::ask_rows(KernelRequest& request) {
  for (int value = 0; value < std::ssize(request.values); ++value) {
    TensorDesc& desc = request.values[value];
    const int place = request.place_in(value);
    if (!((place == 0 || place == 1) && request.steps.size() == 1 && desc.type.shape.rank() == 2 && in_rows(desc)))
      desc.layout = {};
  }
}

bool cpu::read_product(KernelRequest& request, Product& product) {
  for (const TensorDesc& desc : request.values)
    if (desc.type.dtype != DType::f32) return decline(request, "takes f32 only"), false;
  if (!operands_apart(request))
    return decline(request, "fuses steps after one product of different operands only"), false;
  const Shape &a = request.input(0).type.shape, &b = request.input(1).type.shape;
  if (request.op().name() == "linear") {
    product.k = a[-1];
    product.m = product.k == 0 ? Dim(0) : a.numel() / product.k;
    product.n = b[0];
    product.a_row = row_distance(request.input(0)), product.b_column = row_distance(request.input(1));
    product.a_column = product.b_row = 1;
    product.bias = request.steps[0].in.size() == 3;
  } else {
    const auto& op = static_cast<const Matmul&>(request.op());
    if (a.rank() < 2 || b.rank() != a.rank()) return decline(request, "takes operands of equal rank, 2 or more"), false;
    for (int axis = 0; axis < a.rank() - 2; ++axis) {
      if (a[axis] != b[axis]) return decline(request, "does not broadcast over the batch"), false;
      product.batch *= a[axis];
    }
    product.m = op.transpose_a ? a[-1] : a[-2];
    product.k = op.transpose_a ? a[-2] : a[-1];
    product.n = op.transpose_b ? b[-2] : b[-1];
    const std::int64_t a_apart = row_distance(request.input(0)), b_apart = row_distance(request.input(1));
    product.a_row = op.transpose_a ? 1 : a_apart;
    product.a_column = op.transpose_a ? a_apart : 1;
    product.b_row = op.transpose_b ? 1 : b_apart;
    product.b_column = op.transpose_b ? b_apart : 1;
  }
  if (product.batch == 0 || product.m == 0 || product.n == 0 || product.k == 0)
    return decline(request, "an axis is empty"), false;
  if (request.steps.size() > 1 && product.batch > 1)
    return decline(request, "fuses steps after one product only"), false;
  return true;
}

void cpu_matmul() {
  for (const char* op : {"linear", "matmul"}) {
    cpu::add_kernel(
        {.op = op, .name = "cpu matmul", .prepare = prepare, .propose_layouts = propose_layouts, .fuses = true});
    cpu::add_kernel({.op = op,
                     .name = "cpu rounded matmul",
                     .prepare = prepare_rounded,
                     .propose_layouts = wants_rounded,
                     .fuses = true});
  }
}

}  // namespace neurim
