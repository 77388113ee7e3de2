#include "neurim/evaluate/drawn_names.h"

#include "neurim/base/text.h"
#include "neurim/evaluate/canvas.h"

namespace neurim {

std::vector<std::string> drawn_names(const std::vector<std::string>& class_names) {
  Canvas ruler(1, 1);
  std::vector<std::string> drawn;
  for (const std::string& name : class_names) drawn.push_back(ruler.can_draw(name) ? name : text('#', drawn.size()));
  return drawn;
}

std::optional<std::string> drawn_names_note(const std::vector<std::string>& class_names) {
  const std::vector<std::string> drawn = drawn_names(class_names);
  std::size_t count = 0, first = 0;
  for (std::size_t c = drawn.size(); c-- > 0;)
    if (drawn[c] != class_names[c]) ++count, first = c;
  if (count == 0) return {};
  return text("images show numbers for ", plural(static_cast<std::int64_t>(count), "class name"),
              " that the font cannot draw, such as ", drawn[first], " for ", class_names[first],
              ": they count from #0 in the order of labels.txt and per_class.csv");
}

}  // namespace neurim
