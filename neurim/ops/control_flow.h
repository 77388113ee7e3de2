// Control flow: ops that run other graphs, their bodies. They run eagerly; a plan takes them where what decides is a
// constant.
#pragma once
#include "neurim/graph/trace.h"

namespace neurim {

/// A body, which several ops may share.
using Body = std::shared_ptr<const Graph>;

/// A symbol that was not there before: "unknown.7".
std::string unknown_symbol();

/// An op that runs bodies.
class ControlFlow : public Op {
 public:
  std::string symbol = unknown_symbol();  ///< how symbols of sizes begin that follow from data

  std::span<const Body> bodies() const override { return bodies_; }
  void set_bodies(std::vector<Body> graphs) override { bodies_ = std::move(graphs); }  ///< as many as there are
  void renew_symbols() override { symbol = unknown_symbol(); }                         ///< another symbol
  std::vector<Sample> samples() const override { return {}; }

 protected:
  explicit ControlFlow(std::vector<Body> bodies) : bodies_(std::move(bodies)) {}  ///< as many as there will be
  std::vector<Body> bodies_;                                                      ///< what it runs
};

/// Inputs (condition, captures…): condition a bool scalar. Runs the first body with the captures where it is true, else
/// the second one, and gives what that gives. (ONNX operators: If.)
class If final : public ControlFlow {
 public:
  /// Sets the bodies.
  explicit If(Body then_body = {}, Body else_body = {}) : ControlFlow({std::move(then_body), std::move(else_body)}) {}

  std::string_view name() const override { return "if"; }
  void fields(Fields& f) override { f("symbol", symbol); }
  /// Sizes in which the bodies differ are symbols.
  Types infer(std::span<const Type> in) const override;
  Tensors decompose(std::span<const Tensor> in) const override;
  bool decided(std::span<const Tensor> in) const override;
};

/// Inputs (count, condition, carried…, captures…): count an i64 scalar, condition a bool scalar. While fewer than
/// `count` turns are done and the condition holds, runs the body with (turn, condition, carried…, captures…); it gives
/// (condition, carried…, scanned…). Gives the last carried values, and each scanned one of all turns along a new axis
/// 0. (ONNX operators: Loop.)
class Loop final : public ControlFlow {
 public:
  /// Sets the body and the number of carried values.
  explicit Loop(Body body = {}, std::int64_t carried_values = 0)
      : ControlFlow({std::move(body)}), carried(carried_values) {}
  std::int64_t carried;  ///< how many values go from turn to turn

  std::string_view name() const override { return "loop"; }
  void fields(Fields& f) override { f("carried", carried)("symbol", symbol); }
  /// Scanned values have as many rows as there are turns, which is a symbol.
  Types infer(std::span<const Type> in) const override;
  Tensors decompose(std::span<const Tensor> in) const override;
  /// Where the body leaves the condition as it is, and the turns are at most kMostTurns.
  bool decided(std::span<const Tensor> in) const override;
  static constexpr std::int64_t kMostTurns = 1000;  ///< that become parts of a plan

 private:
  void check_counts(std::size_t inputs) const;
};

/// Runs one of two bodies; see If. Throws Error(usage) where inputs and bodies do not fit.
Tensors if_else(const Tensor& condition, const Body& then_body, const Body& else_body, const Tensors& captures);
/// Runs a body again and again; see Loop. Throws Error(usage) where inputs and body do not fit.
Tensors loop(const Tensor& count, const Tensor& condition, const Tensors& carried, const Body& body,
             const Tensors& captures = {});

}  // namespace neurim
