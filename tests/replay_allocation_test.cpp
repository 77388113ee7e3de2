// A replay allocates nothing on the heap in our code. This program's own malloc and its kin count, for all
// threads, while a plan runs; what oneDNN and OpenMP allocate inside their calls is told apart by the frames
// on the stack.
#include <dlfcn.h>
#include <execinfo.h>
#include <gtest/gtest.h>
#include <link.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <iostream>
#include <numeric>
#include <vector>

#include "neurim/compile/plan.h"
#include "neurim/core/device.h"
#include "neurim/core/random.h"
#include "neurim/graph/kernel.h"
#include "neurim/model/zoo.h"
#include "neurim/nn/activations.h"
#include "neurim/nn/conv.h"
#include "neurim/nn/linear.h"
#include "neurim/nn/pool.h"
#include "neurim/nn/recurrent.h"
#include "neurim/nn/sequential.h"
#include "neurim/nn/transformer.h"
#include "neurim/ops/linear.h"
#include "neurim/ops/mean.h"
#include "neurim/ops/square.h"
#include "neurim/optim/adam.h"
#include "neurim/optim/sgd.h"
#include "neurim/train/step.h"
#include "tests/has_onednn.h"

namespace {

constexpr int kDepth = 64;

/// Code of a vendor's library in this process.
struct Range {
  std::uintptr_t begin, end;
};
std::vector<Range> vendor_code;

std::atomic<bool> counting{false};
std::atomic<long> ours{0}, vendor{0};
std::array<void*, kDepth> first_of_ours;  // the stack of the first allocation in our code
int first_depth = 0;

int note_vendor_code(dl_phdr_info* library, std::size_t, void*) {
  const std::string_view name = library->dlpi_name;
  if (name.find("libdnnl") != name.npos || name.find("libgomp") != name.npos)
    for (int i = 0; i < library->dlpi_phnum; ++i)
      if (const auto& segment = library->dlpi_phdr[i]; segment.p_type == PT_LOAD && segment.p_flags & PF_X) {
        const std::uintptr_t begin = library->dlpi_addr + segment.p_vaddr;
        vendor_code.push_back({begin, begin + segment.p_memsz});
      }
  return 0;
}

/// Neither library calls back into ours, so one frame of theirs says that the allocation is inside a call of
/// theirs.
bool inside_vendor(std::span<void* const> stack) {
  for (void* const frame : stack)
    for (const Range& range : vendor_code)
      if (const auto at = reinterpret_cast<std::uintptr_t>(frame); range.begin <= at && at < range.end) return true;
  return false;
}

void count() {
  thread_local bool inside = false;  // walking the stack may allocate
  if (!counting.load(std::memory_order_relaxed) || inside) return;
  inside = true;
  std::array<void*, kDepth> stack;
  const int depth = ::backtrace(stack.data(), kDepth);
  if (inside_vendor(std::span(stack).first(static_cast<std::size_t>(depth)))) {
    ++vendor;
  } else if (ours++ == 0) {
    first_of_ours = stack;
    first_depth = depth;
  }
  inside = false;
}

}  // namespace

// These stand in for glibc's in the whole process, its operator new and all libraries included.
extern "C" {
void* __libc_malloc(std::size_t);
void* __libc_calloc(std::size_t, std::size_t);
void* __libc_realloc(void*, std::size_t);
void* __libc_memalign(std::size_t, std::size_t);

void* malloc(std::size_t bytes) {
  count();
  return __libc_malloc(bytes);
}
void* calloc(std::size_t items, std::size_t bytes) {
  count();
  return __libc_calloc(items, bytes);
}
void* realloc(void* memory, std::size_t bytes) {
  count();
  return __libc_realloc(memory, bytes);
}
void* memalign(std::size_t alignment, std::size_t bytes) {
  count();
  return __libc_memalign(alignment, bytes);
}
void* aligned_alloc(std::size_t alignment, std::size_t bytes) {
  count();
  return __libc_memalign(alignment, bytes);
}
int posix_memalign(void** memory, std::size_t alignment, std::size_t bytes) {
  count();
  *memory = __libc_memalign(alignment, bytes);
  return *memory ? 0 : ENOMEM;
}
}

namespace neurim {
namespace {

constexpr int kReplays = 4;

struct Count {
  long ours, vendor;
  std::string where;  ///< of the first of ours
};

/// The heap allocations in some replays of a plan, half of them in its own buffers, half in a caller's.
/// Integers among the inputs are zeroes, the others random.
Count allocations(const Plan& plan) {
  for (const Tensor& input : plan.inputs()) {
    Random random(1);
    std::vector<float> values(static_cast<std::size_t>(input.numel()));
    if (input.dtype() == DType::f32)
      for (float& value : values) value = static_cast<float>(random.normal());
    std::vector<std::int64_t> labels(values.size());
    input.write(input.dtype() == DType::f32 ? static_cast<const void*>(values.data()) : labels.data());
  }
  if (vendor_code.empty()) ::dl_iterate_phdr(note_vendor_code, nullptr);
  std::array<void*, 1> stack;
  ::backtrace(stack.data(), 1);  // loads what it needs
  Tensors in, out;               // of a caller
  for (const Tensor& input : plan.inputs()) in.push_back(input.clone());
  for (const Tensor& output : plan.outputs()) out.push_back(output.clone());
  const auto run = [&] {
    for (int i = 0; i < kReplays / 2; ++i) plan.run(plan.inputs(), plan.outputs());
    for (int i = kReplays / 2; i < kReplays; ++i) plan.run(in, out);
  };
  run();  // threads start, vendors fill their caches
  ours = vendor = 0;
  counting = true;
  run();
  counting = false;
  Count count{ours, vendor, {}};
  if (count.ours) {
    char** const frames = ::backtrace_symbols(first_of_ours.data(), first_depth);
    for (int i = 0; i < first_depth; ++i) count.where += text("\n  ", frames[i]);
    std::free(frames);
  }
  return count;
}

void expect_none_of_ours(const std::string& what, const Plan& plan) {
  if (!has_onednn()) GTEST_SKIP() << "the reference, which stands in for oneDNN, allocates";
  const Count count = allocations(plan);
  std::cout << what << ": " << count.ours << " allocations of ours, " << count.vendor << " inside vendor calls in "
            << kReplays << " replays\n";
  EXPECT_EQ(count.ours, 0) << what << ": the first one is at" << count.where;
}

/// A step of SGD with momentum on batches of `batch` images.
void expect_none_in_training(Model model, std::int64_t batch) {
  SGD optimizer(named_parameters(model), {.lr = 0.01, .momentum = 0.9});
  const Tensor key = Tensor::from({2}, std::vector<std::int64_t>{7, 0});
  expect_none_of_ours(
      text(model.name, ", training"),
      plan(training_step(model, optimizer, {}), batch_types(batch, model.in_chans, model.image_size, model.image_size),
           {.training = true, .random = key}));
}

/// A step of AdamW on a network of sequences (batch, steps, width), whose outputs are to be 0.
template <class Net>
void expect_none_in_sequences(const std::string& what, Net net, std::int64_t steps, std::int64_t width) {
  initialise(net, 3);
  AdamW optimizer(named_parameters(net), {});
  const Tensor key = Tensor::from({2}, std::vector<std::int64_t>{7, 0});
  expect_none_of_ours(what + ", training", plan(
                                               [&](const Tensors& in) -> Tensors {
                                                 const Tensor loss = mean(square(net(in[0])));
                                                 optimizer.minimize(loss);
                                                 return {loss};
                                               },
                                               {{DType::f32, {4, steps, width}}}, {.training = true, .random = key}));
}

/// The outputs alone of recurrent layers.
struct Outputs {
  nn::LSTM lstm;
  void parts(Parts& p) { lstm.parts(p); }
  Tensor operator()(const Tensor& x) const { return lstm(x).y; }
};

TEST(ReplayAllocation, TrainingAttention) {
  expect_none_in_sequences("attention", nn::TransformerEncoderLayer(32, 4, {.dim_feedforward = 64}), 10, 32);
}
TEST(ReplayAllocation, TrainingLstm) {
  expect_none_in_sequences("lstm", Outputs{nn::LSTM(24, 32, {.num_layers = 2, .batch_first = true, .dropout = 0.1})}, 7,
                           24);
}
TEST(ReplayAllocation, TrainingDepthwise) {
  Model model = create_model("mobilenet_v3_small");
  model.image_size = 32;
  expect_none_in_training(model, 2);
}
TEST(ReplayAllocation, TrainingResnet18) {
  Model model = create_model("resnet18");
  model.image_size = 64;
  expect_none_in_training(model, 2);
}

TEST(ReplayAllocation, ReadingTheLoss) {
  const Tensor loss = Tensor::full({DType::f32, {}}, 0.5);
  ours = vendor = 0;
  counting = true;
  const double value = loss.item();
  counting = false;
  EXPECT_EQ(value, 0.5);
  EXPECT_EQ(ours, 0);
}

TEST(ReplayAllocation, TrainingLenet5) { expect_none_in_training(create_model("lenet5"), 16); }
TEST(ReplayAllocation, TrainingResnet20) { expect_none_in_training(create_model("resnet20"), 8); }

TEST(ReplayAllocation, TrainingWithDropout) {
  const auto net = nn::Sequential(nn::Conv2d(3, 8, {.kernel = 3}), nn::ReLU(), nn::MaxPool2d(2), nn::Flatten(),
                                  nn::Dropout(0.3), nn::Linear(8 * 5 * 5, 10));
  Model model{"convolution and dropout", 12, 3, 10, {}, {}, net};
  initialise(model, 3);
  expect_none_in_training(model, 4);
}

TEST(ReplayAllocation, FrozenInference) {
  for (const char* name : {"lenet5", "resnet20"}) {
    const Model model = create_model(name);
    expect_none_of_ours(
        text(name, ", frozen inference"),
        plan([&](Tensors in) -> Tensors { return {model(in[0])}; },
             {{DType::f32, {4, model.in_chans, model.image_size, model.image_size}}}, {.freeze = true}));
  }
}

TEST(ReplayAllocation, OneDnnsAreToldApart) {
  if (!has_onednn()) GTEST_SKIP();
  const Tensor weight = Tensor::full({DType::f32, {64, 64}}, 0.5);
  const Plan product = plan([&](Tensors in) -> Tensors { return {linear(in[0], weight)}; }, {{DType::f32, {64, 64}}});
  ASSERT_EQ(product.rows().at(0).kernel, "onednn");
  const Count count = allocations(product);
  EXPECT_EQ(count.ours, 0) << count.where;
  EXPECT_GT(count.vendor, 0);
}

/// y = x, by a kernel whose parts allocate.
class Allocating final : public Op {
 public:
  std::string_view name() const override { return "allocating"; }
  Types infer(std::span<const Type> in) const override { return {in[0]}; }
  std::vector<Sample> samples() const override { return {}; }
};

constexpr int kParts = 3;

Launch prepare_allocating(KernelRequest&) {
  return {[](const void*, const Args& args, int part) noexcept {
            if (part == 0) *static_cast<float*>(args.out[0]) = *static_cast<const float*>(args.in[0]);
            char* volatile block = new char[8];
            delete[] block;
          },
          nullptr, kParts};
}

TEST(ReplayAllocation, OneInAKernelIsCaught) {
  define<Allocating>();
  add({.op = "allocating", .name = "allocating", .rank = 1, .prepare = prepare_allocating});
  const Plan planned = plan([](Tensors in) -> Tensors { return {apply1(make_op("allocating"), in)}; },
                            {{DType::f32, {1}}});
  const int before = threads();
  for (const int count : {1, 2}) {
    set_threads(count);
    EXPECT_EQ(allocations(planned).ours, kReplays * kParts) << count << " threads";
  }
  set_threads(before);
}

}  // namespace
}  // namespace neurim
