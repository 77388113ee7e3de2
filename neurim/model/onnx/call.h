// What the rule of an ONNX operator is given, and the table of the rules. Rules call ops: in a trace these are
// recorded, else they run at once.
#pragma once
#include <exception>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "neurim/model/onnx/value.h"

namespace neurim {

/// Thrown by a rule that needs the numbers of a value which a trace does not know: the model runs op by op instead.
class OnnxNeedsData : public std::exception {
 public:
  /// What needs which data.
  explicit OnnxNeedsData(std::string what) : what_(std::move(what)) {}
  const char* what() const noexcept override { return what_.c_str(); }  ///< the same

 private:
  std::string what_;
};

/// One node with the values of its inputs.
class OnnxCall {
 public:
  virtual ~OnnxCall() = default;
  virtual const std::string& op() const = 0;         ///< "Conv"
  virtual std::int64_t version() const = 0;          ///< of the opset of its domain
  virtual int inputs() const = 0;                    ///< as many as the node names
  virtual int outputs() const = 0;                   ///< as many as the node names
  virtual bool wants(int output) const = 0;          ///< whether that output has a name
  virtual const OnnxValue& in(int input) const = 0;  ///< nothing for one that is left out

  bool has(int input) const { return static_cast<bool>(in(input)); }  ///< whether the input is there
  /// An input of numbers. Throws Error(usage) where it is left out or something else.
  const Tensor& tensor(int input) const;
  /// The same; an undefined tensor where it is left out.
  Tensor optional(int input) const { return has(input) ? tensor(input) : Tensor(); }
  Tensors tensors(int first = 0) const;  ///< all inputs from `first` on
  /// Whether the numbers of an input are known now.
  bool known(int input) const;
  /// They. Throws OnnxNeedsData where they are those of a value of a trace.
  std::vector<std::int64_t> integers(int input) const;
  /// The same as sizes, which may be symbolic.
  std::vector<Dim> dims(int input) const;
  std::vector<double> numbers(int input) const;      ///< the same as numbers
  double number(int input, double otherwise) const;  ///< of an input of one element, or where it is left out
  std::int64_t integer(int input, std::int64_t otherwise) const;  ///< the same

  virtual bool has(std::string_view attribute) const = 0;                                      ///< of an attribute
  virtual std::int64_t integer(std::string_view attribute, std::int64_t otherwise) const = 0;  ///< an attribute
  virtual double number(std::string_view attribute, double otherwise) const = 0;               ///< an attribute
  virtual std::string word(std::string_view attribute, std::string otherwise) const = 0;       ///< an attribute
  virtual std::vector<std::int64_t> integers(std::string_view attribute,
                                             std::vector<std::int64_t> otherwise = {}) const = 0;  ///< an attribute
  virtual std::vector<double> numbers(std::string_view attribute,
                                      std::vector<double> otherwise = {}) const = 0;  ///< an attribute
  virtual std::vector<std::string> words(std::string_view attribute) const = 0;       ///< an attribute
  virtual OnnxValue value(std::string_view attribute) const = 0;                      ///< an attribute, a tensor
  /// Runs the graph of an attribute with these inputs.
  virtual OnnxValues run(std::string_view attribute, const OnnxValues& in) const = 0;
  /// The number of inputs of that graph.
  virtual int inputs_of(std::string_view attribute) const = 0;

  /// The sizes of an input that has to be a tensor with numbers as sizes.
  std::vector<std::int64_t> sizes(int input) const;
  /// An axis counted from the front; throws Error(usage) where there is none.
  int axis(std::int64_t axis, int input = 0) const;
  /// The axes of a reduction and the like: attribute "axes", or that input where it is there; counted from the front.
  std::vector<std::int64_t> axes(int input) const;
};

/// Gives the outputs of a node, as many as it wants or more.
using OnnxRule = std::function<OnnxValues(const OnnxCall& call)>;

/// What is known of an operator.
struct OnnxOperator {
  OnnxRule rule;        ///< computes it
  int since = 1;        ///< the first version of its domain that has it
  bool random = false;  ///< whether it gives other values each time
};

/// The operators, by domain ("" is ONNX's own) and name.
class OnnxOperators {
 public:
  /// Adds an operator of a domain. `since`: the first version that has it.
  void add(std::string_view name, int since, OnnxRule rule, std::string_view domain = "");
  void add_random(std::string_view name, int since, OnnxRule rule);  ///< the same of one that draws numbers
  const OnnxOperator* find(std::string_view domain, std::string_view name) const;  ///< null: it is not known
  /// "Conv", "ai.onnx.ml.Scaler", …, sorted, with the first version of their domain that has them.
  std::vector<std::pair<std::string, int>> list() const;

 private:
  std::map<std::string, OnnxOperator, std::less<>> all_;  // by "domain.name"
};

/// All operators that are known.
const OnnxOperators& onnx_operators();

}  // namespace neurim
