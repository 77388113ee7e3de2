// Functions as values: a graph with named inputs and outputs, its stored tensors and what one must know to use it; and
// the files that hold them. docs/guides/functions.md
#pragma once
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "neurim/base/file.h"
#include "neurim/graph/trace.h"
#include "neurim/weights/state_dict.h"

namespace neurim {

/// A function of tensors. A copy shares the stored tensors.
struct Function {
  Graph graph;                       ///< its inputs have names
  std::vector<std::string> outputs;  ///< the names of its outputs
  Metadata metadata;                 ///< "class_names", "preprocess", …: what a file of weights says too

  /// A named input or output.
  struct Port {
    std::string name;  ///< unique among the inputs, and among the outputs
    Type type;         ///< sizes may be symbols, such as batch
  };
  std::vector<Port> input_ports() const;   ///< in the order of the call
  std::vector<Port> output_ports() const;  ///< in the order of the results

  /// Runs op by op, or as a part of a trace: see call.
  Tensors operator()(const Tensors& in) const { return call(graph, in); }
};

/// Traces a function of tensors for inference. Sizes of the inputs may be symbols; where the function needs one as a
/// number, this throws Error(usage). So it does where names of inputs or outputs are there twice.
Function trace_function(const std::function<Tensors(Tensors)>& function, const std::vector<Function::Port>& inputs,
                        const std::vector<std::string>& outputs, Metadata metadata = {}, Device device = {});

inline constexpr std::string_view kFunctionFormat = "1";  ///< of function files: the metadata "neurim_function"

/// The bytes of stored tensors and the graph go into one safetensors file with checksums; written atomically. Each
/// tensor has the name that the graph's text gives it.
void write_function(const Function& function, const fs::path& path);

/// Whether the metadata of a safetensors file are those of a function.
bool is_function(const Metadata& metadata);

/// Reads a function file: all of it is checked, types are inferred again. Throws Error(data) naming the file and the
/// line of the graph, also for unknown ops and formats.
Function read_function(const fs::path& path, Device device = {});
/// The same of a file that is open already.
Function read_function(const StateDict& file, Device device = {});

}  // namespace neurim
