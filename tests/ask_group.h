// Asking a kernel for a fusion group in a given layout, as compile/ does, beside what the reference kernels
// give.
#pragma once
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "neurim/core/float16.h"
#include "tests/ask_kernel.h"

namespace neurim::op_table {

/// The type of 16 bits that a test is about.
inline DType& tested_half() {
  static DType storage = DType::bf16;
  return storage;
}
inline float nearest_half(float value) {
  return from_storage(storage_of(tested_half()), to_storage(storage_of(tested_half()), value));
}

/// The nearest numbers that it has.
inline Tensor rounded(const Tensor& tensor) {
  std::vector<float> values = tensor.values<float>();
  for (float& value : values) value = nearest_half(value);
  return Tensor::from(tensor.shape(), values);
}

/// A request of one or more ops; values are numbered as they are made.
class FusionGroup {
 public:
  int input(const Tensor& tensor) {
    data_.push_back(tensor);
    in_.push_back(add(tensor.type()));
    return in_.back();
  }

  /// Adds an op and gives its outputs.
  std::vector<int> then(std::shared_ptr<const Op> op, const std::vector<int>& in) {
    Step step{op.get(), in, {}};
    Types types;
    for (const int value : in) types.push_back(values_[value]);
    for (const Type& type : op->infer(types)) step.out.push_back(add(type));
    ops_.push_back(std::move(op));
    steps_.push_back(step);
    return step.out;
  }

  /// Has kernels be asked as in a plan whose products may round to tested_half(), where these values may stand rounded
  /// (TensorDesc::may_store_as).
  void may_store_as(std::vector<int> values) { products_ = tested_half(), may_store_as_ = std::move(values); }

  /// What the values numbered `out` are by the reference kernels, those numbered `by_hand` rounded as they are made.
  Tensors expected(const std::vector<int>& out, const std::vector<int>& by_hand = {}) const {
    Tensors known(values_.size());
    for (std::size_t i = 0; i < in_.size(); ++i) known[in_[i]] = data_[i];
    for (std::size_t s = 0; s < steps_.size(); ++s) {
      Tensors in;
      for (const int value : steps_[s].in) in.push_back(known[value]);
      const Tensors made = reference_outputs(ops_[s], in);
      for (std::size_t i = 0; i < made.size(); ++i) {
        const int value = steps_[s].out[i];
        known[value] = has(by_hand, value) ? rounded(made[i]) : made[i];
      }
    }
    return chosen(known, out);
  }

  /// What the first kernel of the first op that is called `name` and takes the request gives for the values numbered
  /// `out`, activations coming in `layout`, which is rounded only where they may be, or nothing and the reason;
  /// `layouts`: what it asks for, of each value. Fails when the lanes behind the channels of a blocked output are not
  /// zero, or something else is written to.
  Tensors run(const Layout& layout, int chunks, const std::vector<int>& out, std::string* why = nullptr,
              std::string_view name = "cpu", std::vector<Layout>* layouts = nullptr) const {
    std::vector<TensorDesc> descs;
    for (const Type& type : values_) descs.push_back({type, {}});
    for (const int value : may_store_as_) descs[value].may_store_as = storage_of(products_);
    for (const int value : in_)
      if (TensorDesc& desc = descs[value]; desc.type.shape.rank() == 4) {
        desc.layout = layout;
        if (!desc.may_store_as) desc.layout.storage = Layout::exact;
      }
    KernelRequest request{
        .steps = steps_, .values = descs, .in = in_, .out = out, .chunks = chunks, .compute_dtype = products_};
    Launch launch;
    for (const Kernel& kernel : kernels(steps_[0].op->name(), 0))
      if (!launch && kernel.name == name && kernel.propose_layouts(request)) launch = kernel.prepare(request);
    if (why) *why = request.why;
    if (!launch) return {};
    if (layouts) layouts->clear();
    for (std::size_t i = 0; layouts && i < descs.size(); ++i) layouts->push_back(descs[i].layout);

    std::vector<std::vector<std::byte>> blocks;
    for (std::size_t i = 0; i < in_.size(); ++i) {
      const TensorDesc& desc = descs[in_[i]];
      std::vector<std::byte> row_major(bytes(desc.type));
      data_[i].read(row_major.data());
      blocks.emplace_back(bytes(desc.type, desc.layout));
      pack(desc.type, desc.layout, row_major.data(), blocks.back().data());
    }
    for (const int value : out) {
      const TensorDesc& desc = descs[value];
      blocks.emplace_back(bytes(desc.type, desc.layout), std::byte{0xff});
    }
    blocks.emplace_back(request.scratch + 1, std::byte{0xff});
    blocks.emplace_back(launch.workspace_bytes() + 1, std::byte{0xff});

    std::vector<std::size_t> ends;
    std::deque<Storage> memory;
    std::vector<void*> pointers;
    for (auto& block : blocks) {
      ends.push_back(block.size());
      block.resize(2 * block.size() + 64,
                   std::byte{0xa5});  // as far as what takes halves for floats would write, and a fence
      memory.emplace_back(Device{}, block.size());
      std::memcpy(memory.back().data(), block.data(), block.size());
      pointers.push_back(memory.back().data());
    }
    const Call call{launch,
                    0,
                    static_cast<std::uint16_t>(in_.size()),
                    static_cast<std::uint16_t>(out.size()),
                    false,
                    launch.workspace_step()};
    std::uint32_t status = 0;
    default_stream({}).run({&call, 1}, pointers.data(), &status);
    EXPECT_EQ(status, 0u);
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      const std::size_t from = i < in_.size() ? 0 : ends[i];
      EXPECT_EQ(std::memcmp(blocks[i].data() + from, static_cast<const std::byte*>(pointers[i]) + from,
                            blocks[i].size() - from),
                0)
          << "a write beyond block " << i << (i < in_.size() ? ", or to it, an input" : "");
    }

    Tensors results;
    for (std::size_t i = 0; i < out.size(); ++i) {
      const TensorDesc& desc = descs[out[i]];
      const void* written = pointers[in_.size() + i];
      std::vector<std::byte> row_major(bytes(desc.type)), again(bytes(desc.type, desc.layout));
      unpack(desc.type, desc.layout, written, row_major.data());
      pack(desc.type, desc.layout, row_major.data(), again.data());
      EXPECT_EQ(std::memcmp(written, again.data(), again.size()), 0) << "lanes behind the channels are not zero";
      results.push_back(Tensor::from(desc.type, row_major.data()));
    }
    return results;
  }

  /// Plain and blocked either way, in 1, 2 and 8 chunks: the values agree with the reference's within `tolerance`, and
  /// the bits do not depend on the chunks.
  void check(const std::vector<int>& out, double tolerance) const {
    const Tensors want = expected(out);
    for (const Layout& layout : {Layout{}, Layout{Layout::blocked, 16}, Layout{Layout::last_blocked, 16}}) {
      std::string why;
      const Tensors one = run(layout, 1, out, &why);
      ASSERT_FALSE(one.empty()) << why;
      EXPECT_EQ(difference(want, one, tolerance), "") << text(layout, ' ', values_[0]);
      for (const int chunks : {2, 8})
        EXPECT_EQ(difference(one, run(layout, chunks, out), 0), "")
            << text(layout, ' ', values_[0], ", chunks ", chunks);
    }
  }

 private:
  int add(const Type& type) {
    values_.push_back(type);
    return static_cast<int>(values_.size()) - 1;
  }
  static bool has(const std::vector<int>& list, int value) {
    return std::find(list.begin(), list.end(), value) != list.end();
  }
  static Tensors chosen(const Tensors& all, const std::vector<int>& numbers) {
    Tensors result;
    for (const int number : numbers) result.push_back(all[number]);
    return result;
  }

  std::vector<std::shared_ptr<const Op>> ops_;
  std::vector<Step> steps_;
  Types values_;
  Tensors data_;
  std::vector<int> in_;
  DType products_ = DType::f32;
  std::vector<int> may_store_as_;
};

/// Uniform numbers of f32; a function of the seed.
inline Tensor uniform(const Shape& shape, double low, double high, std::uint64_t seed) {
  Random random(seed);
  std::vector<float> values(static_cast<std::size_t>(shape.numel()));
  for (float& value : values) value = static_cast<float>(random.uniform(low, high));
  return Tensor::from(shape, values);
}

}  // namespace neurim::op_table
