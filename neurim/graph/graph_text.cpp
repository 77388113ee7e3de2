// The text form of graphs: docs/guides/functions.md.
#include <algorithm>
#include <map>
#include <set>

#include "neurim/base/error.h"
#include "neurim/graph/recorder.h"
#include "neurim/graph/value.h"

namespace neurim {

namespace {

/// The names of stored tensors, each different; graphs and their bodies share one.
class Names {
 public:
  /// The name of a stored tensor.
  const std::string& of(const Tensor& tensor) {
    std::string& name = known_[tensor.value()];
    if (name.empty()) {
      const std::string own(tensor.name());
      name = own.empty() || own[0] == '%' ? text("constant_", constants_++) : own;
      for (int number = 2; !taken_.insert(name).second; ++number)
        name = text(own.empty() ? "constant" : own, '_', number);
      stored.emplace_back(name, tensor);
    }
    return name;
  }

  /// Names the stored tensors of a graph and of its bodies in the order of its text.
  void add(const Graph& graph) {
    for (const Graph::Value& value : graph.values)
      if (value.captured) of(value.captured);
    for (const Graph::Node& node : graph.nodes)
      for (const auto& body : node.op->bodies()) add(*body);
  }

  std::vector<std::pair<std::string, Tensor>> stored;  ///< in the order of their first use

 private:
  std::map<const Value*, std::string> known_;
  std::set<std::string> taken_;
  int constants_ = 0;
};

/// Which kind of stored tensor it is.
std::string_view kind_of(const Tensor& tensor) {
  return tensor.value()->constant ? "constant" : is_learnt(tensor) ? "parameter" : "state";
}

class Writer {
 public:
  Writer(Names& names, std::string indent) : names_(names), indent_(std::move(indent)) {}

  std::string write(const Graph& graph, const std::vector<std::string>& outputs) {
    values_.resize(graph.values.size());
    for (const int v : graph.inputs) {
      const std::string& own = graph.values[v].name;
      values_[v] = text('$', quoted_word(own.empty() ? text("input_", v) : own));
      line("input ", values_[v].substr(1), ' ', graph.values[v].type);
    }
    for (std::size_t v = 0; v < graph.values.size(); ++v) {
      const Tensor& tensor = graph.values[v].captured;
      if (!tensor) continue;
      values_[v] = quoted_word(names_.of(tensor));
      line(kind_of(tensor), ' ', values_[v], ' ', graph.values[v].type);
    }
    for (const auto& [a, b] : graph.unequal) line("unequal ", a, ' ', b);
    int number = 0;
    for (const Graph::Node& node : graph.nodes) {
      std::vector<std::string> results, operands;
      for (const int v : node.out) {
        values_[v] = text('%', number++);
        results.push_back(text(values_[v], ' ', graph.values[v].type));
      }
      for (const int v : node.in) operands.push_back(values_[v]);
      const std::string attribute_text = attributes(*node.op);
      line(join(results, ", "), " = ", node.op->name(), '(', join(operands, ", "), ')',
           attribute_text.empty() ? "" : " ", attribute_text, node.where.empty() ? "" : " @",
           node.where.empty() ? "" : quoted_word(node.where));
      for (const auto& body : node.op->bodies()) {
        line("body");
        out_ += Writer(names_, indent_ + "  ").write(*body, {});
        line("end");
      }
    }
    for (const Graph::Commit& commit : graph.commits)
      line("commit ", values_[commit.state], " = ", values_[commit.value]);
    for (std::size_t i = 0; i < graph.outputs.size(); ++i)
      line("output ", i < outputs.size() ? quoted_word(outputs[i]) + " = " : "", values_[graph.outputs[i]]);
    return out_;
  }

 private:
  template <class... Parts>
  void line(const Parts&... parts) {
    out_ += text(indent_, parts..., '\n');
  }

  Names& names_;
  const std::string indent_;
  std::vector<std::string> values_;  // what values are called in the text
  std::string out_;
};

/// The words of a text, line by line.
class Lines {
 public:
  explicit Lines(std::string_view text) : rest_(text) {}

  /// Goes to the next line that says something; whether there is one.
  bool next() {
    while (!rest_.empty()) {
      const std::size_t end = std::min(rest_.find('\n'), rest_.size());
      line_ = rest_.substr(0, end);
      rest_.remove_prefix(std::min(end + 1, rest_.size()));
      ++number_;
      line_.remove_prefix(std::min(line_.find_first_not_of(' '), line_.size()));
      if (!line_.empty()) return true;
    }
    line_ = {};
    return false;
  }

  /// The next word of the line; "" at its end.
  std::string_view word() {
    const std::string_view found = line_.substr(0, word_end(line_));
    line_.remove_prefix(std::min(found.size() + 1, line_.size()));
    return found;
  }
  /// What is left of the line.
  std::string_view rest() const { return line_; }
  /// What stands before `mark`, which is taken too.
  std::string_view until(std::string_view mark) {
    const std::size_t at = line_.find(mark);
    if (at == std::string_view::npos) bad(text("there is no '", mark, "'"));
    const std::string_view found = line_.substr(0, at);
    line_.remove_prefix(at + mark.size());
    return found;
  }

  /// What stands before this bracket, which is taken too; it does not end inside quotes.
  std::string_view until_bracket(char bracket) {
    bool inside = false;
    for (std::size_t i = 0; i < line_.size(); ++i) {
      if (inside && line_[i] == '\\') {
        ++i;
      } else if (line_[i] == '"') {
        inside = !inside;
      } else if (line_[i] == bracket && !inside) {
        const std::string_view found = line_.substr(0, i);
        line_.remove_prefix(i + 1);
        line_.remove_prefix(starts_with(line_, " "));
        return found;
      }
    }
    bad(text("there is no '", bracket, "'"));
  }

  [[noreturn]] void bad(std::string_view what) const { fail(Fault::usage, "graph: line ", number_, ": ", what); }
  template <class Step>
  void at_line(const Step& step) const {
    try {
      step();
    } catch (const Error& error) {
      if (error.fault() == Fault::resource) throw;
      const std::string_view said = error.what();
      if (starts_with(said, "graph: line ")) throw;
      bad(said);
    }
  }

 private:
  std::string_view rest_, line_;
  std::size_t number_ = 0;
};

Type type_of(std::string_view word) {
  const std::size_t open = word.find('(');
  const std::optional<DType> dtype = dtype_named(word.substr(0, open));
  require(dtype && open != std::string_view::npos && word.back() == ')', "'", word, "' is no type");
  Type type{*dtype, {}};
  const std::string_view sizes = word.substr(open + 1, word.size() - open - 2);
  if (sizes.empty()) return type;
  for (const std::string& size : split(sizes, ',')) {
    type.shape.push_back(Dim::parse(size));
    require(type.shape[-1].symbolic() || type.shape[-1] >= 0, "'", word, "' has a size below 0");
  }
  type.shape.numel();  // throws where it does not fit
  return type;
}

class Parser {
 public:
  Parser(Lines& lines, const FindTensor& stored, Device device, int depth)
      : lines_(lines), stored_(stored), device_(device), depth_(depth) {}

  /// Reads up to the end of the text, or of a body.
  ParsedGraph parse() {
    if (depth_ > 16) lines_.bad("a body in more than 16 others");
    Trace trace({.device = device_});
    Tensors outputs;
    std::vector<std::string> names;
    bool ended = depth_ == 0;
    while (lines_.next()) {
      if (lines_.rest() == "end") {
        if (depth_ == 0) lines_.bad("there is no body to end");
        ended = true;
        break;
      }
      lines_.at_line([&] { line(trace, outputs, names); });
    }
    if (!ended) lines_.bad("the text ends inside a body");
    lines_.at_line([&] {
      for (const auto& [state, next] : commits_) state.assign(next);
    });
    Graph graph = trace.finish(outputs);
    graph.unequal = unequal_;
    return {std::move(graph), std::move(names)};
  }

 private:
  void line(Trace& trace, Tensors& outputs, std::vector<std::string>& names) {
    if (starts_with(lines_.rest(), "%")) return node();
    const std::string_view what = lines_.word();
    if (what == "input") {
      const std::string name = unquoted(lines_.word());
      add(text('$', quoted_word(name)), trace.input(type_of(lines_.rest()), name));
    } else if (what == "parameter" || what == "state" || what == "constant") {
      const std::string_view name = lines_.word();
      const Type type = type_of(lines_.rest());
      const Tensor tensor = stored_(unquoted(name), type);
      require(tensor.type() == type, "the stored tensor ", name, " is ", tensor.type(), ", not ", type);
      tensor.value()->parameter = what == "parameter";
      tensor.value()->constant = what == "constant";
      add(std::string(name), tensor);
      Recorder::current()->read(tensor);
    } else if (what == "unequal") {
      const Dim a = Dim::parse(lines_.word());
      unequal_.emplace_back(a, Dim::parse(lines_.rest()));
    } else if (what == "commit") {
      const Tensor& state = value(lines_.word());
      require(!state.traced() && !state.value()->constant, "commit: what takes the value is no parameter and no state");
      if (lines_.word() != "=") lines_.bad("there is no '='");
      Recorder& recorder = *Recorder::current();
      commits_.emplace_back(state, recorder.handle(recorder.read(value(lines_.rest()))));
    } else if (what == "output") {
      const std::string_view first = lines_.word();
      const bool named = !lines_.rest().empty();
      if (named && lines_.word() != "=") lines_.bad("there is no '='");
      names.push_back(named ? unquoted(first) : text("output_", outputs.size()));
      outputs.push_back(value(named ? lines_.rest() : first));
    } else {
      lines_.bad(text("'", what, "' begins no line"));
    }
  }

  void node() {
    std::vector<std::pair<std::string, Type>> results;
    for (bool more = true; more;) {
      const std::string name(lines_.word());
      std::string_view type = lines_.word();
      more = ends_with(type, ",");
      if (more) type.remove_suffix(1);
      results.emplace_back(name, type_of(type));
    }
    if (lines_.word() != "=") lines_.bad("there is no '='");
    const std::string name(lines_.until("("));
    Tensors in;
    std::string_view operands = lines_.until_bracket(')');
    while (!operands.empty()) {
      std::string_view word = operands.substr(0, word_end(operands));
      operands.remove_prefix(std::min(word.size() + 1, operands.size()));
      if (ends_with(word, ",")) word.remove_suffix(1);
      in.push_back(value(word));
    }
    std::string_view attribute_text, where;
    if (starts_with(lines_.rest(), "{")) attribute_text = lines_.until_bracket('}');
    const std::shared_ptr<Op> op = make_op(name, attribute_text.empty() ? "" : text(attribute_text, '}'));
    if (starts_with(lines_.rest(), "@")) where = lines_.rest().substr(1);
    const std::string place = where.empty() ? "" : unquoted(where);
    std::vector<std::shared_ptr<const Graph>> bodies;
    while (bodies.size() < op->bodies().size()) {
      if (!lines_.next() || lines_.rest() != "body") lines_.bad("there is no body, which the op before has");
      bodies.push_back(std::make_shared<const Graph>(Parser(lines_, stored_, device_, depth_ + 1).parse().graph));
    }
    op->set_bodies(std::move(bodies));
    const Tensors out = neurim::apply(op, in);
    Recorder::current()->graph.nodes.back().where = place;
    require(out.size() == results.size(), name, " has ", out.size(), " results, not ", results.size());
    for (std::size_t i = 0; i < out.size(); ++i) {
      require(out[i].type() == results[i].second, name, " gives ", out[i].type(), ", not ", results[i].second);
      add(results[i].first, out[i]);
    }
  }

  void add(const std::string& name, const Tensor& tensor) {
    require(values_.emplace(name, tensor).second, "there is a value ", name, " already");
  }
  const Tensor& value(std::string_view name) const {
    const auto found = values_.find(name);
    require(found != values_.end(), "there is no value ", name, " before this line");
    return found->second;
  }

  Lines& lines_;
  const FindTensor& stored_;
  const Device device_;
  const int depth_;
  std::map<std::string, Tensor, std::less<>> values_;
  std::vector<std::pair<Dim, Dim>> unequal_;
  std::vector<std::pair<Tensor, Tensor>> commits_;  // states and what they become
};

}  // namespace

std::string Graph::text(const std::vector<std::string>& output_names) const {
  Names names;
  return Writer(names, "").write(*this, output_names);
}

std::vector<std::pair<std::string, Tensor>> stored_tensors(const Graph& graph) {
  Names names;
  names.add(graph);
  return names.stored;
}

ParsedGraph parse_graph(std::string_view text, const FindTensor& stored, Device device) {
  const Untraced untraced;
  Lines lines(text);
  return Parser(lines, stored, device, 0).parse();
}

}  // namespace neurim
