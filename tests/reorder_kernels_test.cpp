// Copies between layouts: the fast kernels against pack and unpack, alone and in plans.
#include <gtest/gtest.h>

#include <cmath>

#include "neurim/compile/plan.h"
#include "neurim/graph/value.h"
#include "neurim/ops/batch_norm.h"
#include "tests/ask_kernel.h"
#include "tests/has_onednn.h"

namespace neurim {
namespace {

/// What the kernels for reorders write for these bytes, or nothing when none takes it.
std::vector<std::byte> reordered(const Type& type, const Layout& from, const Layout& to, int chunks,
                                 const std::vector<std::byte>& in) {
  std::vector<TensorDesc> values{{type, from}, {type, to}};
  const Step step{nullptr, {0}, {1}};
  KernelRequest request{.steps = {&step, 1}, .values = values, .in = step.in, .out = step.out, .chunks = chunks};
  for (const Kernel& kernel : kernels("reorder", 0)) {
    const Launch launch = kernel.prepare(request);
    if (!launch) continue;
    std::vector<std::byte> out(bytes(type, to), std::byte{0xff});
    std::vector<std::byte> scratch(request.scratch);
    void* pointers[] = {const_cast<std::byte*>(in.data()), out.data(), scratch.data(), nullptr};
    std::uint32_t status = 0;
    const Call call{launch, 0, 1, 1};
    default_stream({}).run({&call, 1}, pointers, &status);
    return out;
  }
  return {};
}

/// Numbers from 1 to `most`.
std::vector<std::byte> counted(const Type& type, std::int64_t most = 100003) {
  std::vector<std::byte> data(bytes(type));
  const reference::View view{type, data.data()};
  for (std::int64_t i = 0; i < type.shape.numel(); ++i) view.set(i, static_cast<double>(i % most + 1));
  return data;
}

/// Copies from each of the layouts to each other one.
void expect_copies(const Shape& shape, const std::vector<Layout>& layouts, const std::vector<int>& chunks,
                   std::int64_t most = 100003) {
  const Type type{DType::f32, shape};
  std::vector<std::vector<std::byte>> forms;
  for (const Layout& layout : layouts) {
    forms.emplace_back(bytes(type, layout));
    pack(type, layout, counted(type, most).data(), forms.back().data());
  }
  for (const int count : chunks)
    for (std::size_t from = 0; from < layouts.size(); ++from)
      for (std::size_t to = 0; to < layouts.size(); ++to)
        if (from != to) {
          const std::vector<std::byte> got = reordered(type, layouts[from], layouts[to], count, forms[from]);
          if (got.empty() && !has_onednn()) continue;  // what no kernel takes goes by pack and unpack
          EXPECT_EQ(got, forms[to]) << text(type, ' ', layouts[from], " to ", layouts[to], " chunks ", count);
        }
}

TEST(ReorderKernels, BlockAndUnblockChannels) {
  for (const Shape& shape : {Shape{2, 64, 28, 28},
                             {3, 17, 5, 7},
                             {1, 3, 33, 33},
                             {2, 24, 9, 9},
                             {4, 16, 1, 1},
                             {2, 40, 1, 2},
                             {3, 30},
                             {1, 1, 40, 41},
                             {2, 20, 6}})
    expect_copies(shape, {{}, {Layout::blocked, 16}}, {1, 2, 8});
}

TEST(ReorderKernels, BlockAndUnblockImages) {
  for (const Shape& shape : {Shape{128, 1, 28, 28}, {16, 17, 5, 3}, {32, 10}, {48, 3, 1, 1}})
    expect_copies(shape, {{}, {Layout::batch_blocked, 16}, {Layout::blocked, 16}}, {1, 3});
}

TEST(ReorderKernels, MoveRowsApartAndTogether) {
  for (const Shape& shape : {Shape{64, 1024}, {7, 5, 1024}, {3, 1000}, {1, 2, 3, 40}})
    expect_copies(shape, {{}, {Layout::last_blocked, 1040}}, {1, 2, 8});
}

/// Whole numbers up to 256 are such that both types of 16 bits have.
TEST(ReorderKernels, RoundAndWidenBlocks) {
  for (const Layout::StorageDtype storage : {Layout::bf16, Layout::f16}) {
    const Layout exact{Layout::blocked, 16}, rounded{Layout::blocked, 16, 0, storage};
    for (const Shape& shape : {Shape{2, 64, 28, 28}, {3, 17, 5, 7}, {1, 1, 3, 3}, {2, 40, 1, 2}})
      expect_copies(shape, {{}, exact, rounded}, {1, 2, 8}, 256);
    for (const Shape& shape : {Shape{2, 197, 64}, {3, 5, 7, 17}})
      expect_copies(shape, {{}, {Layout::last_blocked, 16}, {Layout::last_blocked, 16, 0, storage}}, {1, 3}, 256);
    // Others round to the nearest, of f16 from the largest past infinity down to those that are zero.
    const Type type{DType::f32, {1, 16, 3, 3}};
    std::vector<std::byte> plain(bytes(type)), from(bytes(type, exact)), to(bytes(type, rounded));
    const reference::View view{type, plain.data()};
    for (std::int64_t i = 0; i < type.shape.numel(); ++i)
      view.set(i, std::exp2(i % 44 - 27) * (1 + 0.37 * static_cast<double>(i)) * (i % 2 ? 1 : -1));
    pack(type, exact, plain.data(), from.data()), pack(type, rounded, plain.data(), to.data());
    EXPECT_EQ(reordered(type, exact, rounded, 1, from), to);
    std::vector<std::byte> widened(bytes(type)), again(bytes(type, exact));
    unpack(type, rounded, to.data(), widened.data()), pack(type, exact, widened.data(), again.data());
    EXPECT_EQ(reordered(type, rounded, exact, 1, to), again);
  }
}

TEST(ReorderKernels, BlockAndUnblockFeatures) {
  for (const Shape& shape : {Shape{2, 197, 64}, {3, 5, 7, 17}, {1, 300, 3}, {4, 1, 16}, {2, 9, 2, 3, 40}})
    expect_copies(shape, {{}, {Layout::last_blocked, 16}, {Layout::blocked, 16}}, {1, 2, 8});
}

TEST(ReorderKernels, ChannelsLast) {
  for (const Shape& shape : {Shape{2, 64, 28, 28}, {5, 17, 60, 7}, {1, 3, 33, 33}, {4, 24, 9, 90}, {2, 20, 6}})
    expect_copies(shape, {{}, {Layout::channels_last}, {Layout::blocked, 16}}, {1, 2, 8});
}

TEST(ReorderKernels, CopyAnyTypeInItsLayout) {
  for (const DType dtype : kDTypes) {
    const Type type{dtype, {2, 17, 60, 60}};
    const std::vector<std::byte> plain = counted(type);
    EXPECT_EQ(reordered(type, {}, {}, 8, plain), plain) << text(type);
  }
}

TEST(ReorderKernels, LeaveOtherLayoutsToTheHost) {
  const Type type{DType::f32, {2, 17, 6, 6}};
  EXPECT_TRUE(reordered(type, {}, {Layout::blocked, 8}, 1, counted(type)).empty());
  EXPECT_TRUE(reordered(type, {}, {Layout::batch_blocked, 16}, 1, counted(type)).empty());  // two images
}

/// A state that stands blocked keeps the work on it blocked; what leaves the plan is plain.
TEST(ReorderKernels, BringResultsOfAPlanIntoThePlainLayout) {
  const Type type{DType::f32, {2, 20, 9, 9}};
  const Tensor state = Tensor::from(type, counted(type).data());
  const Tensor mean = Tensor::full({DType::f32, {20}}, 0), var = Tensor::full({DType::f32, {20}}, 1);
  const auto function = [&](const Tensors&) { return Tensors{batch_norm(state, {}, {}, mean, var, 0.1, 0)}; };
  repack(state, {Layout::blocked, 16});
  const Plan fast = plan(function, {});
  std::vector<std::string> kernels;
  for (const PlanRow& row : fast.rows()) kernels.push_back(row.kernel);
  EXPECT_EQ(join(kernels, ", "), "cpu, reorder blocked16 to plain");
  EXPECT_EQ(op_table::difference({state.clone()}, fast({}), 1e-6), "");
}

}  // namespace
}  // namespace neurim
