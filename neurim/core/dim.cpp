#include "neurim/core/dim.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <deque>
#include <mutex>
#include <optional>
#include <ostream>
#include <vector>

#include "neurim/base/error.h"

namespace neurim {

namespace {

using Product = std::vector<std::string>;            // of symbols and floors, sorted
using Polynomial = std::map<Product, std::int64_t>;  // without zeros

// What a file may make of them is bounded.
constexpr std::size_t kMostTerms = 100, kMostParts = 16, kMostBytes = std::size_t{64} << 20;

std::string text_of(const Polynomial& polynomial) {
  std::vector<std::pair<Product, std::int64_t>> terms(polynomial.begin(), polynomial.end());
  std::stable_sort(terms.begin(), terms.end(),
                   [](const auto& a, const auto& b) { return a.first.size() > b.first.size(); });
  std::string out;
  for (const auto& [product, factor] : terms) {
    if (factor < 0 || !out.empty()) out += factor < 0 ? '-' : '+';
    std::vector<std::string> parts = product;
    if (product.empty() || (factor != 1 && factor != -1))
      parts.insert(parts.begin(), text(factor < 0 ? -factor : factor));
    out += join(parts, "*");
  }
  return out;
}

std::int64_t times(std::int64_t a, std::int64_t b) {
  std::int64_t product = 0;
  require(!__builtin_mul_overflow(a, b, &product), "a size outgrows 63 bits");
  return product;
}

/// Adds a term.
void add(Polynomial& to, const Product& product, std::int64_t factor) {
  std::int64_t& sum = to[product];
  require(!__builtin_add_overflow(sum, factor, &sum), "a size outgrows 63 bits");
  if (sum == 0) to.erase(product);
}

bool is_floor(const std::string& part) { return part.back() == ')'; }

std::optional<std::int64_t> least(Dim size);

/// Whether a floor is known to be 0 or more.
bool known_positive(const std::string& part) {
  const auto fraction = Dim::floor_of(part);
  if (!fraction) return true;  // a symbol
  const auto dividend = least(fraction->first), divisor = least(fraction->second);
  return dividend && divisor && *dividend >= 0 && *divisor > 0;
}

/// The greatest number that the size is known not to fall below, symbols being at least 1.
std::optional<std::int64_t> least(Dim size) {
  std::int64_t sum = 0;
  for (const auto& [factor, parts] : size.terms()) {
    if (!parts.empty() && (factor < 0 || !std::all_of(parts.begin(), parts.end(), known_positive))) return std::nullopt;
    if (std::none_of(parts.begin(), parts.end(), is_floor)) sum += factor;
  }
  return sum;
}

bool begins_symbol(char c) { return std::isalpha(static_cast<unsigned char>(c)) || c == '_'; }
bool in_symbol(char c) { return begins_symbol(c) || std::isdigit(static_cast<unsigned char>(c)) || c == '.'; }

}  // namespace

/// All polynomials that there are, numbered.
struct Expressions {
  struct Entry {
    Polynomial polynomial;
    std::string text;
  };
  std::mutex mutex;
  std::deque<Entry> entries;  // a deque: references stay valid
  std::map<std::string, std::size_t> numbers;
  std::size_t bytes = 0;  // about what they take

  static Expressions& all() {
    static Expressions& expressions = *new Expressions;
    return expressions;
  }

  static Polynomial of(Dim dim) {
    if (dim.symbolic()) return entry(dim).polynomial;
    Polynomial number;
    if (dim.code_ != 0) number[{}] = dim.code_;
    return number;
  }

  static const Entry& entry(Dim dim) {
    Expressions& self = all();
    const std::lock_guard lock(self.mutex);
    return self.entries[static_cast<std::size_t>(Dim::kLeast - 1 - dim.code_)];
  }

  static Dim dim(Polynomial polynomial) {
    if (polynomial.empty()) return 0;
    if (polynomial.size() == 1 && polynomial.begin()->first.empty()) return polynomial.begin()->second;
    Expressions& self = all();
    const std::lock_guard lock(self.mutex);
    std::string text = text_of(polynomial);
    const auto [at, added] = self.numbers.emplace(text, self.entries.size());
    if (added && self.bytes + 2 * at->first.size() > kMostBytes) {
      self.numbers.erase(at);
      fail(Fault::resource, "size: the expressions of symbols take ", kMostBytes, " bytes already");
    }
    if (added) self.bytes += 2 * at->first.size() + 100;
    if (added) self.entries.push_back({std::move(polynomial), std::move(text)});
    Dim out;
    out.code_ = Dim::kLeast - 1 - static_cast<std::int64_t>(at->second);
    return out;
  }
};

namespace {

thread_local Dim::Assumptions::Pairs* assumptions = nullptr;

/// Reads an expression; precedence as in C++.
class Reader {
 public:
  Reader(std::string_view text, const Dim::Symbols& symbols) : text_(text), symbols_(symbols) {}

  Dim whole() {
    const Dim value = sum();
    if (at_ != text_.size()) bad();
    return value;
  }
  std::optional<std::pair<Dim, Dim>> floored() {
    if (!takes("floor(")) return std::nullopt;
    return fraction();
  }

 private:
  [[noreturn]] void bad() const {
    fail(Fault::usage, "size: '", text_, "' is no expression at character ", at_ + 1,
         "; sizes are such as 7, batch, 4*batch+1, floor((time+1)/2)");
  }
  bool takes(std::string_view what) {
    if (text_.substr(at_, what.size()) != what) return false;
    at_ += what.size();
    return true;
  }

  Dim sum() {
    Dim value = takes("-") ? -product() : product();
    while (at_ < text_.size())
      if (takes("+"))
        value += product();
      else if (takes("-"))
        value -= product();
      else
        break;
    return value;
  }

  Dim product() {
    Dim value = factor();
    while (takes("*")) value *= factor();
    return value;
  }

  std::pair<Dim, Dim> fraction() {
    const Dim dividend = factor();
    if (!takes("/")) bad();
    const Dim divisor = factor();
    if (divisor == 0 || !takes(")")) bad();
    return {dividend, divisor};
  }

  Dim factor() {
    if (++depth_ > 50 || at_ >= text_.size()) bad();
    Dim value;
    const char c = text_[at_];
    if (takes("(")) {
      value = sum();
      if (!takes(")")) bad();
    } else if (takes("floor(")) {
      const auto [dividend, divisor] = fraction();
      value = dividend / divisor;
    } else if (std::isdigit(static_cast<unsigned char>(c))) {
      std::int64_t number = 0;
      const auto [end, error] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), number);
      if (error != std::errc()) bad();
      at_ = static_cast<std::size_t>(end - text_.data());
      value = number;
    } else if (begins_symbol(c)) {
      const std::size_t first = at_;
      while (at_ < text_.size() && in_symbol(text_[at_])) ++at_;
      value = symbols_(text_.substr(first, at_ - first));
    } else {
      bad();
    }
    --depth_;
    return value;
  }

  const std::string_view text_;
  const Dim::Symbols& symbols_;
  std::size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace

Dim Dim::symbol(std::string_view name) {
  require(
      !name.empty() && begins_symbol(name[0]) && std::all_of(name.begin(), name.end(), in_symbol) && name != "floor",
      "size: '", name, "' is no symbol; take letters, digits, _ and ., not a digit first");
  return Expressions::dim({{{std::string(name)}, 1}});
}

Dim Dim::parse(std::string_view text, const Symbols& symbols) { return Reader(text, symbols).whole(); }

bool Dim::may_be_positive() const {
  if (!symbolic()) return code_ > 0;
  const std::optional<std::int64_t> below = least(-*this);
  return !below || *below < 0;
}

std::vector<Dim::Term> Dim::terms() const {
  std::vector<Term> all;
  for (const auto& [product, factor] : Expressions::of(*this)) all.push_back({factor, product});
  return all;
}

std::optional<std::pair<Dim, Dim>> Dim::floor_of(std::string_view part) { return Reader(part, symbol).floored(); }

void Dim::throw_out_of_range() { fail(Fault::usage, "size: a number outgrows 63 bits, or is divided by 0"); }

void Dim::throw_symbolic() const {
  fail(Fault::usage, "the size ", *this,
       " is not known here, where a number is needed; keep it a Dim, or give inputs "
       "of known sizes");
}

Dim Dim::sum(Dim a, Dim b, std::int64_t factor) {
  Polynomial out = Expressions::of(a);
  for (const auto& [product, of_b] : Expressions::of(b)) add(out, product, times(factor, of_b));
  require(out.size() <= kMostTerms, "size: an expression of more than ", kMostTerms, " terms");
  return Expressions::dim(std::move(out));
}

Dim Dim::product(Dim a, Dim b) {
  Polynomial out;
  const Polynomial right = Expressions::of(b);
  for (const auto& [product, of_a] : Expressions::of(a))
    for (const auto& [other, of_b] : right) {
      Product both = product;
      both.insert(both.end(), other.begin(), other.end());
      std::sort(both.begin(), both.end());
      require(both.size() <= kMostParts, "size: a product of more than ", kMostParts, " symbols");
      add(out, both, times(of_a, of_b));
      require(out.size() <= kMostTerms, "size: an expression of more than ", kMostTerms, " terms");
    }
  return Expressions::dim(std::move(out));
}

/// What divides without a rest stands before the floor, and a constant in it is less than the divisor.
Dim Dim::quotient(Dim a, Dim b) {
  require(b != 0, "size: ", a, " is divided by 0");
  if (a.code_ == b.code_) return 1;  // == would record an assumption
  const Polynomial by = Expressions::of(b);
  Polynomial whole, rest;
  if (by.size() == 1) {
    const auto& [divisor, factor] = *by.begin();
    for (const auto& [product, of_a] : Expressions::of(a)) {
      if (!std::includes(product.begin(), product.end(), divisor.begin(), divisor.end())) {
        add(rest, product, of_a);
        continue;
      }
      std::int64_t left = of_a % factor;
      if (left < 0) left += factor < 0 ? -factor : factor;
      Product quotient;
      std::set_difference(product.begin(), product.end(), divisor.begin(), divisor.end(), std::back_inserter(quotient));
      if (left != 0) add(rest, product, left);
      if (of_a != left) add(whole, quotient, (of_a - left) / factor);
    }
  } else {
    rest = Expressions::of(a);
  }
  const bool below = rest.empty() || (rest.size() == 1 && rest.begin()->first.empty());
  if (!below || by.size() != 1 || !by.begin()->first.empty()) {
    const auto bracketed = [](const Polynomial& polynomial) {
      const bool one = polynomial.size() == 1 && polynomial.begin()->second > 0 &&
                       (polynomial.begin()->first.empty() ||
                        (polynomial.begin()->first.size() == 1 && polynomial.begin()->second == 1));
      return one ? text_of(polynomial) : '(' + text_of(polynomial) + ')';
    };
    if (!rest.empty()) add(whole, {"floor(" + bracketed(rest) + '/' + bracketed(by) + ')'}, 1);
  }
  return Expressions::dim(std::move(whole));
}

bool Dim::assumed_equal(Dim a, Dim b) {
  const std::optional<std::int64_t> above = least(a - b), below = least(b - a);
  if ((above && *above > 0) || (below && *below > 0)) return false;
  if (assumptions) assumptions->emplace(std::pair{text(a), text(b)}, std::pair{a, b});
  return false;
}

bool Dim::known_less(Dim a, Dim b) {
  const std::optional<std::int64_t> more = least(b - a), less = least(a - b);
  if (more && *more > 0) return true;
  if (less && *less >= 0) return false;
  fail(Fault::usage, "whether ", a, " or ", b, " is the larger size is not known here; give inputs of known sizes");
}

Dim::Assumptions::Assumptions(Pairs* pairs) : outer_(assumptions) { assumptions = pairs; }
Dim::Assumptions::~Assumptions() { assumptions = outer_; }

void append(std::string& out, Dim dim) {
  if (dim.symbolic())
    out += Expressions::entry(dim).text;
  else
    append(out, dim.code_);
}

std::ostream& operator<<(std::ostream& out, Dim dim) { return out << text(dim); }

}  // namespace neurim
