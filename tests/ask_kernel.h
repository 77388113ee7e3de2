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
/// overruled by plain layouts (as in eager code), whether inputs 1… are constant, the count of chunks, and what factors may be
/// rounded to.
struct Request {
  Layout layout;
  bool overruled = false, known = false;
  int chunks = 1;
  DType products = DType::f32;
};

inline bool equal(const std::vector<std::byte>& a, const std::vector<std::byte>& b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size()) == 0);
}

/// One op asked of one kernel, as compile/ asks: the site and what it refers to.
class Asked {
 public:
  Asked(const Kernel& kernel, const Op& op, const Tensors& in, const Request& request)
      : op_(op), step_{&op, {}, {}} {
    for (const Tensor& tensor : in) {
      const bool constant = request.known && !step_.in.empty();
      step_.in.push_back(static_cast<int>(specs_.size()));
      specs_.push_back({tensor.type(), kernel.wants && tensor.rank() >= 3 ? request.layout : Layout{}, constant});
    }
    for (const Type& type : op.infer(types_of(in))) {
      step_.out.push_back(static_cast<int>(specs_.size()));
      specs_.push_back({type, {}});
    }
    site_.steps = {&step_, 1};
    site_.values = specs_;
    site_.in = step_.in;
    site_.out = step_.out;
    site_.chunks = request.chunks;
    site_.products = request.products;
    if (kernel.wants ? !kernel.wants(site_) : request.layout != Layout{}) return;
    if (request.overruled)
      for (Spec& spec : specs_) spec.layout = {};
    for (std::size_t i = 0; i < in.size(); ++i) {
      std::vector<std::byte> row_major(bytes(specs_[i].type));
      in[i].read(row_major.data());
      physical_.emplace_back(bytes(specs_[i].type, specs_[i].layout));
      pack(specs_[i].type, specs_[i].layout, row_major.data(), physical_.back().data());
    }
    for (std::size_t i = 1; i < in.size(); ++i)
      if (specs_[i].constant) specs_[i].known = physical_[i].data();
    launch_ = kernel.prepare(site_);
  }
  Asked(const Asked&) = delete;

  bool accepted() const { return static_cast<bool>(launch_); }
  const std::string& why_not() const { return site_.why; }

  /// Runs the launch in memory that held `dirt` before; `in_place` lays each output over an input where the
  /// op allows it. `fault` names a status, a write beyond the end of a block, a changed input, or a tail of a
  /// block that is not zero.
  Tensors run(Device device, unsigned char dirt, bool in_place, std::string& fault) const {
    constexpr std::size_t kFence = 64;
    // Of its own for each block: a kernel that runs on copies one fence over another.
    const auto fence = [](std::size_t block) {
      return std::vector(kFence, static_cast<std::byte>(0xa5 + block));
    };
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
        blocks.emplace_back(bytes(spec_out(i).type, spec_out(i).layout), std::byte{dirt});
      }
      place.push_back(block);
    }
    place.push_back(blocks.size());
    blocks.emplace_back(site_.scratch, std::byte{dirt});
    place.push_back(blocks.size());
    blocks.emplace_back(launch_.own_bytes(), std::byte{dirt});

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
    const Call call{launch_, 0, static_cast<std::uint16_t>(step_.in.size()),
                    static_cast<std::uint16_t>(step_.out.size()), false, launch_.own_step()};
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
      const Spec& spec = spec_out(i);
      std::vector<std::byte> row_major(bytes(spec.type));
      std::vector<std::byte>& block = blocks[place[step_.in.size() + i]];
      block.resize(bytes(spec.type, spec.layout));
      unpack(spec.type, spec.layout, block.data(), row_major.data());
      if (spec.layout.kind == Layout::blocked || spec.layout.kind == Layout::last_blocked) {
        std::vector<std::byte> again(block.size());
        pack(spec.type, spec.layout, row_major.data(), again.data());
        if (!equal(again, block)) fault = text("the tail of a block of output ", i, " is not zero");
      }
      results.push_back(Tensor::from(spec.type, row_major.data()));
    }
    return results;
  }

 private:
  const Spec& spec_out(std::size_t i) const { return specs_[static_cast<std::size_t>(step_.out[i])]; }

  /// The first free input that output `i` may overwrite, or the count of inputs.
  std::size_t block_under(std::size_t i, const std::vector<bool>& overwritten) const {
    std::size_t in = 0;
    for (; in < overwritten.size(); ++in)
      if (!overwritten[in] && !specs_[in].known && specs_[in].type == spec_out(i).type &&
          specs_[in].layout == spec_out(i).layout &&
          op_.alias(static_cast<int>(i), static_cast<int>(in)) == Alias::overwrite)
        break;
    return in;
  }

  const Op& op_;
  Step step_;
  std::vector<Spec> specs_;
  std::vector<std::vector<std::byte>> physical_;
  Site site_;
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
