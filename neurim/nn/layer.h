// Layer: one type that holds any module or function of one tensor.
#pragma once
#include <concepts>
#include <memory>
#include <utility>

#include "neurim/nn/module.h"

namespace neurim::nn {

/// Holds a module, a layer without parameters or a plain function Tensor -> Tensor. A copy holds a copy of
/// the module, which shares its tensors, as any copy of a module does.
class Layer {
 public:
  /// Holds a copy of the module, or what is moved from it.
  template <class M>
    requires(!std::same_as<std::remove_cvref_t<M>, Layer> &&
             std::is_invocable_r_v<Tensor, const std::remove_cvref_t<M>&, const Tensor&>)
  Layer(M&& module) : held_(std::make_unique<Held<std::remove_cvref_t<M>>>(std::forward<M>(module))) {}
  Layer(const Layer& other) : held_(other.held_->copy()) {}  ///< a copy of the module, which shares its tensors
  Layer(Layer&&) noexcept = default;                         ///< leaves the other one without a module
  /// Holds the other one's module instead.
  Layer& operator=(Layer other) noexcept {
    held_ = std::move(other.held_);
    return *this;
  }

  void parts(Parts& p) { held_->parts(p); }
  Tensor operator()(const Tensor& x) const { return held_->forward(x); }  ///< calls the module

 private:
  struct Any {
    virtual ~Any() = default;
    virtual std::unique_ptr<Any> copy() const = 0;
    virtual void parts(Parts& p) = 0;
    virtual Tensor forward(const Tensor& x) const = 0;
  };
  template <class M>
  struct Held final : Any {
    explicit Held(const M& from) : module(from) {}
    explicit Held(M&& from) : module(std::move(from)) {}
    std::unique_ptr<Any> copy() const override { return std::make_unique<Held>(module); }
    void parts(Parts& p) override {
      if constexpr (HasParts<M>) module.parts(p);
    }
    Tensor forward(const Tensor& x) const override { return module(x); }
    M module;
  };

  std::unique_ptr<Any> held_;
};

}  // namespace neurim::nn
