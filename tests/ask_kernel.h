// Asking one kernel for one op, as a plan does, and running it in fenced memory.
#pragma once
#include <deque>
#include <string>
#include <vector>

#include "neurim/base/error.h"
#include "neurim/core/device.h"
#include "neurim/graph/kernel.h"
#include "tests/op_table.h"

namespace neurim::op_table {

/// How a kernel is asked: the layout that its inputs of three and more axes come in, whether what it wants is
/// overruled by plain layouts (as in eager code), whether inputs 1… are constant, the count of chunks, and what factors
/// may be rounded to.
struct Request {
  Layout layout;
  bool overruled = false, known = false;
  int chunks = 1;
  DType compute_dtype = DType::f32;
};

inline bool equal(const std::vector<std::byte>& a, const std::vector<std::byte>& b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size()) == 0);
}

/// One op asked of one kernel, as compile/ asks: the request and what it refers to.
class Asked {
 public:
  Asked(const Kernel& kernel, const Op& op, const Tensors& in, const Request& request) : op_(op), step_{&op, {}, {}} {
    for (const Tensor& tensor : in) {
      const bool constant = request.known && !step_.in.empty();
      step_.in.push_back(static_cast<int>(descs_.size()));
      descs_.push_back(
          {tensor.type(), kernel.propose_layouts && tensor.rank() >= 3 ? request.layout : Layout{}, constant});
    }
    for (const Type& type : op.infer(types_of(in))) {
      step_.out.push_back(static_cast<int>(descs_.size()));
      descs_.push_back({type, {}});
    }
    request_.steps = {&step_, 1};
    request_.values = descs_;
    request_.in = step_.in;
    request_.out = step_.out;
    request_.chunks = request.chunks;
    request_.compute_dtype = request.compute_dtype;
    if (kernel.propose_layouts ? !kernel.propose_layouts(request_) : request.layout != Layout{}) return;
    if (request.overruled)
      for (TensorDesc& desc : descs_) desc.layout = {};
    for (std::size_t i = 0; i < in.size(); ++i) {
      std::vector<std::byte> row_major(bytes(descs_[i].type));
      in[i].read(row_major.data());
      physical_.emplace_back(bytes(descs_[i].type, descs_[i].layout));
      pack(descs_[i].type, descs_[i].layout, row_major.data(), physical_.back().data());
    }
    for (std::size_t i = 1; i < in.size(); ++i)
      if (descs_[i].constant) descs_[i].known = physical_[i].data();
    launch_ = kernel.prepare(request_);
  }
  Asked(const Asked&) = delete;

  bool accepted() const { return static_cast<bool>(launch_); }
  const std::string& why_not() const { return request_.why; }

  /// Runs the launch in memory that held `dirt` before; `in_place` lays each output over an input where the
  /// op allows it. `fault` names a status, a write beyond the end of a block, a changed input, or a tail of a
  /// block that is not zero.
  Tensors run(Device device, unsigned char dirt, bool in_place, std::string& fault) const {
    constexpr std::size_t kFence = 64;
    // Of its own for each block: a kernel that runs on copies one fence over another.
    const auto fence = [](std::size_t block) { return std::vector(kFence, static_cast<std::byte>(0xa5 + block)); };
    std::vector<std::vector<std::byte>> blocks = physical_;
    std::vector<std::size_t> place;  // operand -> block
    for (std::size_t i = 0; i < physical_.size(); ++i) place.push_back(i);
    std::vector<bool> overwritten(physical_.size());
    for (std::size_t i = 0; i < step_.out.size(); ++i) {
      std::size_t block = in_place ? block_under(i, overwritten) : blocks.size();
      if (block < overwritten.size())
        overwritten[block] = true;
      else {
        block = blocks.size();
        blocks.emplace_back(bytes(desc_out(i).type, desc_out(i).layout), std::byte{dirt});
      }
      place.push_back(block);
    }
    place.push_back(blocks.size());
    blocks.emplace_back(request_.scratch, std::byte{dirt});
    place.push_back(blocks.size());
    blocks.emplace_back(launch_.workspace_bytes(), std::byte{dirt});

    std::deque<Storage> memory;
    Stream& stream = default_stream(device);
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      const std::vector<std::byte> behind = fence(i);
      blocks[i].insert(blocks[i].end(), behind.begin(), behind.end());
      memory.emplace_back(device, blocks[i].size());
      stream.upload(memory.back().data(), blocks[i].data(), blocks[i].size());
    }
    std::vector<void*> pointers;
    for (const std::size_t block : place) pointers.push_back(memory[block].data());
    const Call call{launch_,
                    0,
                    static_cast<std::uint16_t>(step_.in.size()),
                    static_cast<std::uint16_t>(step_.out.size()),
                    false,
                    launch_.workspace_step()};
    std::uint32_t status = 0;
    stream.run({&call, 1}, pointers.data(), &status);
    stream.wait();
    if (status != 0) fault = text("status ", status);

    for (std::size_t i = 0; i < blocks.size(); ++i) {
      std::vector<std::byte> after(blocks[i].size());
      stream.download(after.data(), memory[i].data(), after.size());
      stream.wait();
      if (const auto behind = fence(i); !std::equal(behind.begin(), behind.end(), after.end() - kFence))
        fault = text("a write beyond block ", i);
      if (i < overwritten.size() && !overwritten[i] && !equal(after, blocks[i]))
        fault = text("input ", i, " is changed");
      blocks[i] = std::move(after);
    }
    Tensors results;
    for (std::size_t i = 0; i < step_.out.size(); ++i) {
      const TensorDesc& desc = desc_out(i);
      std::vector<std::byte> row_major(bytes(desc.type));
      std::vector<std::byte>& block = blocks[place[step_.in.size() + i]];
      block.resize(bytes(desc.type, desc.layout));
      unpack(desc.type, desc.layout, block.data(), row_major.data());
      if (desc.layout.kind == Layout::blocked || desc.layout.kind == Layout::last_blocked) {
        std::vector<std::byte> again(block.size());
        pack(desc.type, desc.layout, row_major.data(), again.data());
        if (!equal(again, block)) fault = text("the tail of a block of output ", i, " is not zero");
      }
      results.push_back(Tensor::from(desc.type, row_major.data()));
    }
    return results;
  }

 private:
  const TensorDesc& desc_out(std::size_t i) const { return descs_[step_.out[i]]; }

  /// The first free input that output `i` may overwrite, or the count of inputs.
  std::size_t block_under(std::size_t i, const std::vector<bool>& overwritten) const {
    std::size_t in = 0;
    for (; in < overwritten.size(); ++in)
      if (!overwritten[in] && !descs_[in].known && descs_[in].type == desc_out(i).type &&
          descs_[in].layout == desc_out(i).layout &&
          op_.alias(static_cast<int>(i), static_cast<int>(in)) == Alias::overwrite)
        break;
    return in;
  }

  const Op& op_;
  Step step_;
  std::vector<TensorDesc> descs_;
  std::vector<std::vector<std::byte>> physical_;
  KernelRequest request_;
  Launch launch_;
};

inline const Kernel* reference_kernel(const Op& op) {
  for (const Kernel& kernel : kernels(op.name(), 0))
    if (kernel.name == "reference") return &kernel;
  return nullptr;
}

/// What the reference kernel gives; where an op has none, what its decomposition gives.
inline Tensors reference_outputs(const std::shared_ptr<const Op>& op, const Tensors& in) {
  const Kernel* kernel = reference_kernel(*op);
  if (!kernel) return neurim::apply(op, in);
  std::string fault;
  Tensors out = Asked(*kernel, *op, in, {}).run({}, 0xff, false, fault);
  if (!fault.empty()) fail(Fault::failure, "reference kernel: ", fault);
  return out;
}

}  // namespace neurim::op_table
