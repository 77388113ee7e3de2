// The one door: every op of the house goes through apply().
#include <algorithm>

#include "neurim/base/error.h"
#include "neurim/graph/kernel.h"
#include "neurim/graph/recorder.h"
#include "neurim/graph/value.h"

namespace neurim {

namespace {

std::string path_of(std::string_view name) { return std::string(name.substr(0, name.rfind('.'))); }

/// Where in the user's model an op is, for messages: the module of its first named input, or of the ops before it.
std::string place(const Tensors& in) {
  for (const Tensor& tensor : in)
    if (tensor && tensor.name().find('.') != std::string_view::npos) return path_of(tensor.name()) + ": ";
  if (const Recorder* recorder = Recorder::current())
    for (const Tensor& tensor : in)
      if (tensor && tensor.traced() && tensor.value()->trace == recorder->id) {
        for (int node = recorder->graph.values[tensor.value()->id].node; node >= 0;) {
          const Graph::Node& producer = recorder->graph.nodes[node];
          if (!producer.where.empty()) return "after " + producer.where + ": ";
          if (producer.in.empty()) break;
          node = recorder->graph.values[producer.in[0]].node;
        }
      }
  return {};
}

Types infer(const Op& op, const Tensors& in) {
  Types types;
  for (const Tensor& tensor : in) types.push_back(tensor.type());
  const Dim::Assumptions none(nullptr);  // types are inferred again once sizes are known
  try {
    return op.infer(types);
  } catch (const Error& error) {
    fail_at(in, error.fault(), error.what());
  }
}

/// The first kernel that takes one op with plain operands.
Launch prepare(const Op& op, const Tensors& in, const Types& out, Device device, std::size_t& scratch) {
  std::vector<TensorDesc> descs;
  Step step{&op, {}, {}};
  for (const Tensor& tensor : in) {
    step.in.push_back(static_cast<int>(descs.size()));
    descs.push_back({tensor.type(), {}});
  }
  for (const Type& type : out) {
    step.out.push_back(static_cast<int>(descs.size()));
    descs.push_back({type, {}});
  }
  for (const Kernel& kernel : kernels(op.name(), device.kind)) {
    KernelRequest request{.steps = {&step, 1}, .values = descs, .in = step.in, .out = step.out};
    if (kernel.fused_only || (kernel.propose_layouts && !kernel.propose_layouts(request))) continue;
    for (TensorDesc& desc : descs)
      desc.layout = {};  // eager tensors are plain; a kernel that insists on its layout declines
    if (Launch launch = kernel.prepare(request)) {
      scratch = request.scratch;
      return launch;
    }
  }
  return {};
}

Tensors run(const Op& op, const Tensors& in, const Types& out) {
  const Device device = in.empty() ? Device{} : in[0].device();
  for (const Tensor& tensor : in)
    if (tensor.device() != device)
      fail_at(in, Fault::usage, text(op.name(), ": inputs are on ", device, " and on ", tensor.device()));
  std::size_t scratch = 0;
  const Launch launch = prepare(op, in, out, device, scratch);
  if (!launch) {
    Tensors results = op.decompose(in);
    if (results.empty()) fail_at(in, Fault::usage, text(op.name(), ": no kernel on ", device, " takes it"));
    return results;
  }
  Tensors results, held;
  std::vector<void*> pointers;
  for (const Tensor& tensor : in) {
    held.push_back(plain(tensor));
    pointers.push_back(held.back().value()->storage->data());
  }
  for (const Type& type : out) {
    results.push_back(Tensor::empty(type, device));
    pointers.push_back(results.back().value()->storage->data());
  }
  const Storage workspace(device, scratch), own(device, launch.workspace_bytes());
  pointers.push_back(workspace.data());
  pointers.push_back(own.data());
  const Call call{launch,
                  0,
                  static_cast<std::uint16_t>(in.size()),
                  static_cast<std::uint16_t>(out.size()),
                  false,
                  launch.workspace_step()};
  std::uint32_t status = 0;
  Stream& stream = default_stream(device);
  stream.run({&call, 1}, pointers.data(), &status);
  stream.wait();
  NEURIM_ASSERT(!(status & kStatusIndexOutOfRange) || op.checks_data());
  if (status & kStatusIndexOutOfRange) fail_at(in, Fault::data, data_fault_of(op, in));
  if (status & kStatusOutOfMemory) fail_at(in, Fault::resource, text(op.name(), ": out of memory"));
  if (status) fail_at(in, Fault::failure, text(op.name(), ": the device reported fault ", status));
  return results;
}

}  // namespace

void fail_at(const Tensors& in, Fault fault, const std::string& message) {
  const std::string where = place(in);
  throw Error(fault, where + message, where.empty() ? Error::Path::none : Error::Path::whole);
}

Tensors apply(std::shared_ptr<const Op> op, const Tensors& in) {
  for (std::size_t i = 0; i < in.size(); ++i)
    if (!in[i]) fail_at(in, Fault::usage, text(op->name(), ": input ", i, " is undefined"));
  Recorder* recorder = Recorder::current();
  if (!op->bodies().empty() && (!recorder || op->decided(in))) return op->decompose(in);  // types may follow from data
  Types out = infer(*op, in);
  if (!recorder) {
    require(std::none_of(in.begin(), in.end(), [](const Tensor& t) { return t.traced(); }), op->name(),
            ": an input belongs to a trace that has ended");
    return run(*op, in, out);
  }
  std::vector<int> values;
  for (const Tensor& tensor : in) values.push_back(recorder->read(tensor));
  return recorder->record(std::move(op), std::move(values), std::move(out));
}

Tensor apply1(std::shared_ptr<const Op> op, const Tensors& in) {
  Tensors results = apply(std::move(op), in);
  NEURIM_ASSERT(results.size() == 1);
  return results[0];
}

}  // namespace neurim
