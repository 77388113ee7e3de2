// The ONNX file in the making. Internal to model/onnx/; protobuf stays in writer.cpp.
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "neurim/graph/onnx.h"

namespace neurim {

/// Builds a ModelProto. Names are what values are known by; each is made unique when it is given out.
class OnnxWriter final : public OnnxFile {
 public:
  explicit OnnxWriter(std::int64_t opset);  ///< throws Error(usage) for an unknown one
  ~OnnxWriter() override;

  std::int64_t opset() const override { return opset_; }

  /// Keeps a name for an input or an output; throws Error(usage) when it is taken.
  void reserve(const std::string& name);
  /// A name that is not taken yet: `wish`, or that with a number.
  std::string fresh(std::string_view wish);
  void input(const std::string& name, const Type& type);
  void output(const std::string& name, const Type& type);
  /// The type of a value in between, of which sizes that are symbols are taken from here on.
  void describe(const std::string& name, const Type& type);

  /// Adds a node with `outputs` outputs, whose names it returns: fresh ones. One of constants alone becomes a constant,
  /// where it is known what it gives.
  std::vector<std::string> node(std::string_view type, const std::vector<std::string>& in,
                                const OnnxAttributes& attributes, std::string_view wish, int outputs) override;
  /// The same with one output.
  std::string node(std::string_view type, const std::vector<std::string>& in, const OnnxAttributes& attributes,
                   std::string_view wish);
  /// Gives the result of the last node this name.
  void rename_last(const std::string& name);
  /// Adds a stored tensor as an initializer and returns its name.
  std::string constant(const Tensor& tensor, std::string_view wish) override;
  /// The sizes as an i64 vector: a constant, or computed from the sizes of the inputs.
  std::string sizes(std::span<const Dim> sizes, std::string_view wish) override;

  /// Takes the initializers out that nothing reads, and gives their names to what has been made of them alone.
  void drop_unread();

  void metadata(const std::map<std::string, std::string>& metadata);

  std::size_t size() const;   ///< of bytes()
  std::string bytes() const;  ///< the file
  /// Takes the data of all large initializers out, for a file called so beside this one, and returns that file.
  std::string take_data(const std::string& location);

 private:
  std::string size(Dim size);
  std::string constant_of(std::string_view type, const std::vector<std::string>& in, const OnnxAttributes& attributes,
                          std::string_view wish);

  std::int64_t opset_;
  std::map<std::string, int, std::less<>> taken_;         // a name and the last number that was appended to it
  std::map<std::string, Tensor, std::less<>> constants_;  // by their names
  // A constant, and the one whose numbers it has in another order.
  std::map<std::string, std::string, std::less<>> made_of_;
  std::string last_constant_;  // what the last node was folded to; "" where it was not
  std::map<std::string, std::pair<std::string, int>, std::less<>> symbols_;  // the input and its axis that each is
  std::map<std::string, std::string, std::less<>> sizes_;  // the value that holds each computed size, i64(1)
  std::unique_ptr<struct OnnxProto> file_;
};

}  // namespace neurim
