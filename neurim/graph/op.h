// What the library knows of an operation. One class in one file under ops/ says everything.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "neurim/base/error.h"
#include "neurim/graph/tensor.h"

namespace neurim {

/// Visits the attributes of an op; hashing, printing and saving all go through it.
class Fields {
 public:
  virtual ~Fields() = default;
  virtual Fields& operator()(std::string_view name, std::int64_t& value) = 0;               ///< an integer
  virtual Fields& operator()(std::string_view name, double& value) = 0;                     ///< a number
  virtual Fields& operator()(std::string_view name, bool& value) = 0;                       ///< a truth value
  virtual Fields& operator()(std::string_view name, std::string& value) = 0;                ///< a text
  virtual Fields& operator()(std::string_view name, DType& value) = 0;                      ///< a dtype
  virtual Fields& operator()(std::string_view name, std::vector<std::int64_t>& value) = 0;  ///< a list of integers
  virtual Fields& operator()(std::string_view name, std::vector<double>& value) = 0;        ///< a list of numbers
  /// A size; by default as an integer, which throws Error(usage) for a symbolic one.
  virtual Fields& operator()(std::string_view name, Dim& value);
  virtual Fields& operator()(std::string_view name, std::vector<Dim>& value);  ///< a list of sizes
  /// What is made of such values, as sizes along axes are: a function `field` beside its type says how.
  template <class T>
    requires requires(Fields& f, std::string_view name, T& value) { field(f, name, value); }
  Fields& operator()(std::string_view name, T& value) {
    field(*this, name, value);
    return *this;
  }
};

/// What Op::grad is given.
struct Gradient {
  std::span<const Tensor> in,    ///< forward inputs
      out,                       ///< forward outputs
      dout;                      ///< gradients of the outputs; undefined: zero
  std::span<const bool> wanted;  ///< for each input, whether its gradient is needed
};

/// How a test fills one input: uniform in [low, high] (integers: rounded down, high excluded).
struct Fill {
  double low = -1,  ///< where the range begins
      high = 1;     ///< where it ends
  /// A shuffled arithmetic sequence over the range instead, so that no two values tie.
  bool distinct = false;
};

/// One row of the op table: an op and the inputs it is tested with.
struct Sample {
  std::shared_ptr<const class Op> op;  ///< with its attributes set
  Types in;                            ///< input types
  std::vector<Fill> fill = {};         ///< one an input; missing ones are the default
  /// Of f32 kernels against the reference, relative to the largest magnitude of the output.
  double tolerance = 1e-5;
};

/// Whether an output may lie in the memory of an input.
enum class Alias : std::uint8_t {
  none,       ///< the output has memory of its own
  overwrite,  ///< the output may take the input's memory when nobody reads the input afterwards
  view,       ///< the output is the input's memory from Op::view_begin on, under another shape (row-major only)
};

/// How ONNX has an op; empty: not at all.
struct Onnx {
  std::string_view name = {};  ///< the operator; empty: none of that meaning
  int since = 0;               ///< the opset since which it has this form
  bool composed = false;       ///< without a name: Op::write_onnx writes it as other operators
  explicit operator bool() const { return composed || !name.empty(); }  ///< whether ONNX has the op
};

/// What the passes of a plan may do with an op.
struct FusionTraits {
  /// Each output element depends on the (broadcast) elements in its place alone. Read by fusion and rematerialization.
  bool pointwise = false;
  /// It may stand in a fusion group after the op that makes one of its inputs.
  bool follows = false;
  /// It may end a fusion group after the op whose result it alone reads, although it changes the shape.
  bool ends_group = false;
  /// Output 0 costs about one pass over memory, given the inputs and the other outputs: a training plan may compute it
  /// again instead of keeping it (compile/recompute).
  bool rematerializable = false;
  /// It turns on single bits of its inputs, so that none of these is computed again: it might differ.
  bool exact = false;
  /// Its results are elements of its inputs, chosen by place or order: what keeps the order may be done before it
  /// (compile/quantize_first), and its results may be in its input's memory (compile/lower).
  bool data_movement = false;
  /// Its output is its inputs one after the other along this axis, so that each may be computed in its place there
  /// (compile/memory_plan).
  std::optional<int> concat_axis = {};
};
/// Of a pointwise op: it may join groups on either side and be computed again.
inline constexpr FusionTraits kPointwise{.pointwise = true, .follows = true, .rematerializable = true};

/// Which row of ops/common/formulas.h a pointwise op is, and its attributes there.
struct Formula {
  double a = 0,                   ///< the first attribute
      b = 0;                      ///< the second
  std::string_view variant = {};  ///< the second word of the row's name, or ""
};

/// An operation: its attributes, its rule of types, its gradient and what plans may do with it. An op does not
/// change once it is made; nodes of graphs share it.
class Op : public std::enable_shared_from_this<Op> {
 public:
  virtual ~Op() = default;
  virtual std::string_view name() const = 0;  ///< also the kernel key
  virtual void fields(Fields&) {}             ///< written once; readers go through fields(const Op&, Fields&)
  virtual Types infer(std::span<const Type> in) const = 0;  ///< output types, or throws Error(usage)
  /// One gradient per input, written with ops; the default is that of decompose(), or else throws.
  virtual Tensors grad(const Gradient& gradient) const;
  virtual Tensors decompose(std::span<const Tensor> in) const;  ///< the same in other ops; {}: a primitive
  virtual bool own_gradient() const { return false; }  ///< of a composition: grad() does not use the decomposition
  /// Whether output `out` may lie in the memory of input `in`.
  virtual Alias alias(int /*out*/, int /*in*/) const { return Alias::none; }
  /// Of a view: the number of the input's element that is its first.
  virtual std::int64_t view_begin(std::span<const Type> /*in*/) const { return 0; }
  /// For an op of one input: the layout of its output in the input's memory, or nothing if it cannot be there. Asked
  /// for layouts that are not plain; for plain ones see Alias::view.
  virtual std::optional<Layout> layout_alias(const Type& /*in*/, const Layout& /*layout*/) const {
    return std::nullopt;
  }
  /// What the passes of a plan may do with it; by default nothing.
  virtual FusionTraits fusion() const { return {}; }
  virtual Formula formula() const { return {}; }  ///< of an op with a row in ops/common/formulas.h
  /// Whether it may be in a fusion group before this anchor, which alone reads it.
  virtual bool precedes(const Op& /*anchor*/) const { return fusion().pointwise; }
  /// Recomputes output 0, for an op whose traits say that it is rematerializable.
  virtual Tensor rematerialize(std::span<const Tensor> in, std::span<const Tensor> out) const;
  /// Whether its outputs follow from inputs and attributes alone, so that equal nodes are one, and one of constants is
  /// computed when it is planned. Not of an op that speaks with other processes.
  virtual bool pure() const { return true; }
  /// Whether it begins what goes on beside other ops: it runs as soon as what it reads is there, not in the order of
  /// the trace. Such ops keep their order among themselves.
  virtual bool begins_early() const { return false; }
  virtual bool checks_data() const { return false; }  ///< its kernels may set Args::status
  /// What those found, "the target at (3) is 12, which is not in [0,10)", or "". Reads no data of floating inputs.
  virtual std::string data_fault(std::span<const Tensor> /*in*/) const { return {}; }
  /// The multiply-adds of its convolutions and matrix products, each sum taken term by term however a kernel computes
  /// it; other ops have none. For one call with these inputs.
  virtual std::int64_t multiply_adds(std::span<const Type> /*in*/) const { return 0; }
  virtual Onnx onnx() const { return {}; }  ///< how ONNX has it; by default not at all
  /// Writes it, where onnx() has it: the last node that is added is the result, unless OnnxNode::results names others.
  /// The default adds the operator of onnx() with the attributes of fields().
  virtual void write_onnx(struct OnnxNode& node) const;
  /// The graphs that the op runs, as control flow does; other ops have none. Their inputs are what the op says, and
  /// then values of the graph around it that they read.
  virtual std::span<const std::shared_ptr<const struct Graph>> bodies() const { return {}; }
  /// Sets them, as many as there are.
  // NOLINTNEXTLINE(performance-unnecessary-value-param): those that have bodies keep them
  virtual void set_bodies(std::vector<std::shared_ptr<const struct Graph>> /*graphs*/) {}
  /// Of one with bodies: whether it is known already what they do, so that decompose() may take its place in a trace.
  virtual bool decided(std::span<const Tensor> /*in*/) const { return false; }
  /// Gives sizes that follow from data symbols of their own, for one more node of the op.
  virtual void renew_symbols() {}
  virtual std::vector<Sample> samples() const = 0;  ///< tests, benchmarks, docs, ONNX round trip
};

/// Reads the attributes of a const op.
void fields(const Op& op, Fields& reader);
/// The attributes as text, "{stride=[2,2] pad=[1,1,1,1]}", or "" when there are none.
std::string attributes(const Op& op);
/// A new op with the attributes that such a text says; those that it does not name keep their defaults. `symbols`: the
/// value of each symbol of a size. Throws Error(usage) for an unknown op or attribute, and for a value of another kind.
std::shared_ptr<Op> make_op(std::string_view name, std::string_view attributes,
                            const Dim::Symbols& symbols = Dim::symbol);
/// The name of its row in ops/common/formulas.h, "gelu" or "gelu tanh".
std::string formula_name(const Op& op);
/// What `visit` visits, as such text.
std::string attributes(const std::function<void(Fields&)>& visit);

/// Makes an op with default attributes.
using OpFactory = std::shared_ptr<Op> (*)();
/// Adds an op to the registry, which the text form, loading, tests and the passes that make ops by name read. Throws
/// Error(usage) where there is an op of that name.
void define(OpFactory factory);
/// The same of a class with a default constructor.
template <class O>
void define() {
  define([]() -> std::shared_ptr<Op> { return std::make_shared<O>(); });
}
/// A new op of that name with default attributes. Asserts that it is defined; throws Error(usage) before initialize().
std::shared_ptr<Op> make_op(std::string_view name);
std::vector<std::string> op_names();  ///< of the registry, sorted

/// The one door: infers the output types, then records the op in the current trace, or runs it at once. Errors start
/// with the path of the nearest named input: "net.conv2: conv2d: …".
Tensors apply(std::shared_ptr<const Op> op, const Tensors& in);

/// As apply, for ops with one output.
Tensor apply1(std::shared_ptr<const Op> op, const Tensors& in);

/// Throws an error that starts so, for what an op cannot check; some of the inputs may be undefined.
[[noreturn]] void fail_at(const Tensors& in, Fault fault, const std::string& message);

/// "NAME: " and what Op::data_fault says, once a kernel of the op has set kStatusIndexOutOfRange.
std::string data_fault_of(const Op& op, std::span<const Tensor> in);

/// The gradients of `of` with respect to `wrt`, recorded in the current trace (throws Error(usage) outside one).
/// `seeds` are the gradients of `of`; by default ones. An unreached `wrt` gets an undefined tensor.
Tensors gradients(std::span<const Tensor> of, std::span<const Tensor> wrt, std::span<const Tensor> seeds = {});

}  // namespace neurim
