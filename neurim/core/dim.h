// The size of an axis: a number, or what follows from symbols such as `batch` and `time`.
#pragma once
#include <concepts>
#include <cstdint>
#include <functional>
#include <iosfwd>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace neurim {

/// A number, or an expression of symbols, each of which stands for a number from 1 on: "batch", "4*batch+1",
/// "floor((time+1)/2)". Arithmetic that leaves the range of numbers throws Error(usage), as dividing by 0 does. Two
/// expressions are equal where they are the same polynomial of symbols and floors. Converting a symbolic one to a
/// number throws Error(usage).
class Dim {
 public:
  constexpr Dim() = default;  ///< 0
  /// A number of at least -2^62.
  template <std::integral T>
  constexpr Dim(T number) : code_(static_cast<std::int64_t>(number)) {
    if (symbolic()) throw_out_of_range();
  }
  static Dim symbol(std::string_view name);  ///< letters, digits, underscores and dots, no digit first
  /// What a symbol stands for.
  using Symbols = std::function<Dim(std::string_view name)>;
  /// Reads what append writes; throws Error(usage). `symbols`: the value of each; by default itself.
  static Dim parse(std::string_view text, const Symbols& symbols = symbol);

  constexpr bool symbolic() const { return code_ < kLeast; }  ///< whether it is no number
  /// The number. Throws Error(usage) for an expression.
  constexpr operator std::int64_t() const {
    if (symbolic()) throw_symbolic();
    return code_;
  }

  /// The sum.
  friend constexpr Dim operator+(Dim a, Dim b) {
    if (!both(a, b)) return sum(a, b, 1);
    std::int64_t number = 0;
    if (__builtin_add_overflow(a.code_, b.code_, &number)) throw_out_of_range();
    return number;
  }
  /// The difference.
  friend constexpr Dim operator-(Dim a, Dim b) {
    if (!both(a, b)) return sum(a, b, -1);
    std::int64_t number = 0;
    if (__builtin_sub_overflow(a.code_, b.code_, &number)) throw_out_of_range();
    return number;
  }
  /// The product.
  friend constexpr Dim operator*(Dim a, Dim b) {
    if (!both(a, b)) return product(a, b);
    std::int64_t number = 0;
    if (__builtin_mul_overflow(a.code_, b.code_, &number)) throw_out_of_range();
    return number;
  }
  /// Of expressions the floor, of numbers as C++ has it.
  friend constexpr Dim operator/(Dim a, Dim b) {
    if (!both(a, b)) return quotient(a, b);
    if (b.code_ == 0) throw_out_of_range();
    return a.code_ / b.code_;
  }
  /// What the division leaves.
  friend constexpr Dim operator%(Dim a, Dim b) {
    if (!both(a, b)) return a - a / b * b;
    if (b.code_ == 0) throw_out_of_range();
    return a.code_ % b.code_;
  }
  /// The opposite.
  friend constexpr Dim operator-(Dim a) { return Dim(0) - a; }
  Dim& operator+=(Dim b) { return *this = *this + b; }  ///< adds
  Dim& operator-=(Dim b) { return *this = *this - b; }  ///< subtracts
  Dim& operator*=(Dim b) { return *this = *this * b; }  ///< multiplies
  Dim& operator/=(Dim b) { return *this = *this / b; }  ///< divides

  /// Whether they are the same for all values of the symbols. Where it depends on them the answer is no, and that they
  /// differ is an assumption: see Assumptions.
  friend constexpr bool operator==(Dim a, Dim b) { return a.code_ == b.code_ || (!both(a, b) && assumed_equal(a, b)); }
  /// As the other comparisons of size, throws Error(usage) where it depends on the symbols.
  friend constexpr bool operator<(Dim a, Dim b) { return both(a, b) ? a.code_ < b.code_ : known_less(a, b); }
  friend constexpr bool operator>(Dim a, Dim b) { return b < a; }      ///< see operator<
  friend constexpr bool operator<=(Dim a, Dim b) { return !(b < a); }  ///< see operator<
  friend constexpr bool operator>=(Dim a, Dim b) { return !(a < b); }  ///< see operator<

  // The same beside numbers, which the language would else be free to convert either way.
  /// @cond
#define NEURIM_WITH_NUMBERS(OP)                   \
  template <std::integral T>                      \
  friend constexpr auto operator OP(Dim a, T b) { \
    return a OP Dim(b);                           \
  }                                               \
  template <std::integral T>                      \
  friend constexpr auto operator OP(T a, Dim b) { \
    return Dim(a) OP b;                           \
  }
  NEURIM_WITH_NUMBERS(+)
  NEURIM_WITH_NUMBERS(-)
  NEURIM_WITH_NUMBERS(*)
  NEURIM_WITH_NUMBERS(/)
  NEURIM_WITH_NUMBERS(%)
  NEURIM_WITH_NUMBERS(<)
  NEURIM_WITH_NUMBERS(>)
  NEURIM_WITH_NUMBERS(<=)
  NEURIM_WITH_NUMBERS(>=)
#undef NEURIM_WITH_NUMBERS
  template <std::integral T>
  friend constexpr bool operator==(Dim a, T b) {
    return a == Dim(b);
  }
  /// @endcond

  /// Whether it is 1 or more for some values of the symbols, as far as is known.
  bool may_be_positive() const;

  /// A term of an expression: `factor` times the parts, each a symbol or a floor.
  struct Term {
    std::int64_t factor;             ///< the number
    std::vector<std::string> parts;  ///< "batch", "floor(time/2)"
  };
  std::vector<Term> terms() const;  ///< whose sum it is; of 0 none
  /// Dividend and divisor of a part that is a floor.
  static std::optional<std::pair<Dim, Dim>> floor_of(std::string_view part);

  /// Collects, while it lives, the pairs of which this thread has assumed that they differ; nests.
  class Assumptions {
   public:
    using Pairs = std::map<std::pair<std::string, std::string>, std::pair<Dim, Dim>>;  ///< by their texts
    explicit Assumptions(Pairs* pairs);  ///< null: what is assumed does not matter
    ~Assumptions();
    Assumptions(const Assumptions&) = delete;
    Assumptions& operator=(const Assumptions&) = delete;

   private:
    Pairs* outer_;
  };

  friend void append(std::string& out, Dim dim);  ///< "7", "4*batch+1"

 private:
  friend struct Expressions;
  static constexpr std::int64_t kLeast = -(std::int64_t{1} << 62);  // smaller codes number expressions
  static constexpr bool both(Dim a, Dim b) { return !a.symbolic() && !b.symbolic(); }
  [[noreturn]] static void throw_out_of_range();
  [[noreturn]] void throw_symbolic() const;
  static Dim sum(Dim a, Dim b, std::int64_t factor);
  static Dim product(Dim a, Dim b);
  static Dim quotient(Dim a, Dim b);
  static bool assumed_equal(Dim a, Dim b);
  static bool known_less(Dim a, Dim b);

  std::int64_t code_ = 0;
};
std::ostream& operator<<(std::ostream& out, Dim dim);  ///< prints 7 or 4*batch+1

}  // namespace neurim
