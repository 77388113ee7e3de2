// Columns and tables that are shared with other libraries by the Arrow C data interface, in the capsules of its
// PyCapsule interface (arrow.apache.org/docs/format/CDataInterface.html).
#include <algorithm>
#include <cstdint>
#include <cstring>

#include "neurim/graph/value.h"
#include "neurim/python/bindings.h"

namespace neurim::python {

namespace {

// The three structs of the interface.
struct ArrowSchema {
  const char* format;
  const char* name;
  const char* metadata;
  std::int64_t flags;
  std::int64_t n_children;
  ArrowSchema** children;
  ArrowSchema* dictionary;
  void (*release)(ArrowSchema*);
  void* private_data;
};

struct ArrowArray {
  std::int64_t length;
  std::int64_t null_count;
  std::int64_t offset;
  std::int64_t n_buffers;
  std::int64_t n_children;
  const void** buffers;
  ArrowArray** children;
  ArrowArray* dictionary;
  void (*release)(ArrowArray*);
  void* private_data;
};

struct ArrowArrayStream {
  int (*get_schema)(ArrowArrayStream*, ArrowSchema*);
  int (*get_next)(ArrowArrayStream*, ArrowArray*);
  const char* (*get_last_error)(ArrowArrayStream*);
  void (*release)(ArrowArrayStream*);
  void* private_data;
};

constexpr std::int64_t kNullable = 2;  // a flag of ArrowSchema

constexpr std::pair<char, DType> kFormats[] = {{'b', DType::boolean}, {'c', DType::i8},  {'C', DType::u8},
                                               {'s', DType::i16},     {'S', DType::u16}, {'i', DType::i32},
                                               {'I', DType::u32},     {'l', DType::i64}, {'L', DType::u64},
                                               {'e', DType::f16},     {'f', DType::f32}, {'g', DType::f64}};

// Reading

/// Takes over what another owner held, who then holds nothing. It is released with the last pointer.
template <class Struct>
std::shared_ptr<Struct> moved(Struct& from) {
  require(from.release != nullptr, "arrow: what was exported has been read already; export it again");
  auto* const own = new Struct(from);
  from.release = nullptr;
  return {own, [](Struct* one) {
            if (one->release != nullptr) one->release(one);
            delete one;
          }};
}

template <class Struct>
std::shared_ptr<Struct> moved(const nb::object& capsule, const char* name) {
  void* const inside = PyCapsule_GetPointer(capsule.ptr(), name);
  if (inside == nullptr) throw nb::python_error();
  return moved(*static_cast<Struct*>(inside));
}

/// A column or a table: its type, and its rows in chunks.
struct Source {
  std::shared_ptr<ArrowSchema> schema;
  std::vector<std::shared_ptr<ArrowArray>> chunks;
};

Source read_stream(ArrowArrayStream& stream) {
  const nb::gil_scoped_release unlocked;  // the producer may wait for its own threads
  const auto check = [&](int code) {
    if (code == 0) return;
    const char* const message = stream.get_last_error(&stream);
    fail(Fault::data, "arrow: the stream ended with error ", code, ": ",
         message == nullptr ? "it gives no reason" : message);
  };
  Source source;
  ArrowSchema schema{};
  check(stream.get_schema(&stream, &schema));
  source.schema = moved(schema);
  while (true) {
    ArrowArray chunk{};
    check(stream.get_next(&stream, &chunk));
    if (chunk.release == nullptr) return source;
    source.chunks.push_back(moved(chunk));
  }
}

Source read(const nb::object& exporter) {
  if (nb::hasattr(exporter, "__arrow_c_array__")) {
    const nb::object pair = exporter.attr("__arrow_c_array__")();
    return {moved<ArrowSchema>(pair[0], "arrow_schema"), {moved<ArrowArray>(pair[1], "arrow_array")}};
  }
  return read_stream(*moved<ArrowArrayStream>(exporter.attr("__arrow_c_stream__")(), "arrow_array_stream"));
}

/// Rows of an array that a column has in one chunk, counted from the array's offset.
struct Rows {
  std::shared_ptr<ArrowArray> array;
  std::int64_t first = 0;
  std::int64_t count = 0;
  bool nulls = false;  ///< of the table around the column
};

bool bit(const void* bits, std::int64_t at) {
  return (static_cast<const std::uint8_t*>(bits)[at / 8] >> (at % 8) & 1) != 0;
}

bool has_nulls(const ArrowArray& array, std::int64_t first, std::int64_t count) {
  if (array.null_count == 0 || array.n_buffers == 0 || array.buffers[0] == nullptr) return false;
  const std::int64_t end = array.offset + first + count;
  std::int64_t at = array.offset + first;
  while (at < end) {
    const bool whole = at % 8 == 0 && end - at >= 8 &&
                       static_cast<const std::uint8_t*>(array.buffers[0])[at / 8] == 0xFF;
    if (!whole && !bit(array.buffers[0], at)) return true;
    at += whole ? 8 : 1;
  }
  return false;
}

/// What a column holds: elements of a dtype, each row with these sizes, or something else.
struct Content {
  std::vector<std::int64_t> sizes;  ///< of nested lists of fixed size; none for numbers
  std::optional<DType> dtype;
  std::string_view other;  ///< what it holds where it is not numbers
};

std::string_view other_than_numbers(std::string_view format) {
  static constexpr std::pair<std::string_view, std::string_view> kOthers[] = {
      {"n", "nulls"},  {"u", "texts"},   {"U", "texts"},   {"vu", "texts"}, {"t", "times"},    {"d", "decimals"},
      {"z", "bytes"},  {"Z", "bytes"},   {"vz", "bytes"},  {"w", "bytes"},  {"+s", "structs"}, {"+l", "lists"},
      {"+L", "lists"}, {"+vl", "lists"}, {"+vL", "lists"}, {"+w", "lists"}};
  for (const auto& [start, what] : kOthers)
    if (format.starts_with(start)) return what;
  return "nested values";
}

Content content_of(const ArrowSchema& column) {
  Content content;
  const ArrowSchema* inner = &column;
  while (std::strncmp(inner->format, "+w:", 3) == 0 && inner->dictionary == nullptr && inner->n_children == 1) {
    content.sizes.push_back(std::strtoll(inner->format + 3, nullptr, 10));
    inner = inner->children[0];
  }
  const std::string_view format = inner->format;
  for (const auto& [letter, dtype] : kFormats)
    if (format.size() == 1 && format[0] == letter) content.dtype = dtype;
  content.other = other_than_numbers(format);
  if (inner->dictionary != nullptr) content.dtype.reset(), content.other = "categories";
  return content;
}

/// Where the elements of rows lie.
struct Elements {
  const void* buffer = nullptr;
  std::int64_t first = 0;  ///< element of the buffer
  std::int64_t count = 0;
  bool nulls = false;
};

Elements elements_of(const Rows& rows, const std::vector<std::int64_t>& sizes) {
  const ArrowArray* array = rows.array.get();
  Elements found{nullptr, rows.first, rows.count, rows.nulls || has_nulls(*array, rows.first, rows.count)};
  found.first += array->offset;
  for (const std::int64_t size : sizes) {
    if (array->n_children != 1) fail(Fault::data, "arrow: a list has ", array->n_children, " children instead of one");
    array = array->children[0];
    found.first *= size, found.count *= size;
    found.nulls = found.nulls || has_nulls(*array, found.first, found.count);
    found.first += array->offset;
  }
  if (array->n_buffers != 2) fail(Fault::data, "arrow: numbers have ", array->n_buffers, " buffers instead of two");
  found.buffer = array->buffers[1];
  return found;
}

Tensor joined(const Type& type, const std::vector<Elements>& chunks) {
  const Tensor made = Tensor::empty(type);
  auto* to = static_cast<std::uint8_t*>(made.value()->storage->data());
  const std::int64_t width = bits(type.dtype) / 8;
  const nb::gil_scoped_release unlocked;
  for (const Elements& chunk : chunks) {
    if (chunk.count == 0) continue;
    if (type.dtype == DType::boolean) {
      for (std::int64_t i = 0; i < chunk.count; ++i) *to++ = bit(chunk.buffer, chunk.first + i) ? 1 : 0;
    } else {
      const auto* const from = static_cast<const std::uint8_t*>(chunk.buffer) + chunk.first * width;
      to = std::copy_n(from, chunk.count * width, to);
    }
  }
  return made;
}

/// (name, tensor, ""), or (name, None, what the column holds instead of numbers).
nb::tuple column(const ArrowSchema& schema, const std::vector<Rows>& parts) {
  const nb::str name(schema.name == nullptr ? "" : schema.name);
  const Content content = content_of(schema);
  const auto refused = [&](std::string_view what) {
    return nb::make_tuple(name, nb::none(), nb::str(what.data(), what.size()));
  };
  if (!content.dtype) return refused(content.other);
  std::vector<Elements> chunks;
  std::vector<std::int64_t> sizes{0};
  for (const Rows& rows : parts) {
    chunks.push_back(elements_of(rows, content.sizes));
    if (chunks.back().nulls) return refused("nulls");
    sizes[0] += rows.count;
  }
  sizes.insert(sizes.end(), content.sizes.begin(), content.sizes.end());
  const Type type{*content.dtype, shape_of({sizes.begin(), sizes.end()})};
  if (chunks.size() != 1 || type.dtype == DType::boolean || bytes(type) == 0)
    return nb::make_tuple(name, joined(type, chunks), nb::str(""));
  const auto* const data = static_cast<const std::uint8_t*>(chunks[0].buffer) +
                           chunks[0].first * (bits(type.dtype) / 8);
  return nb::make_tuple(name, borrowed(type, data, parts[0].array, true), nb::str(""));
}

/// The rows of each column of a table. The columns leave the table, so that each is released when its own tensor goes.
std::vector<std::vector<Rows>> rows_of_columns(const ArrowSchema& schema,
                                               const std::vector<std::shared_ptr<ArrowArray>>& chunks) {
  std::vector<std::vector<Rows>> columns(static_cast<std::size_t>(schema.n_children));
  for (const std::shared_ptr<ArrowArray>& chunk : chunks) {
    if (chunk->n_children != schema.n_children)
      fail(Fault::data, "arrow: a chunk has ", chunk->n_children, " columns, and the table has ", schema.n_children);
    const bool nulls = has_nulls(*chunk, 0, chunk->length);
    for (std::size_t i = 0; i < columns.size(); ++i)
      columns[i].push_back({moved(*chunk->children[i]), chunk->offset, chunk->length, nulls});
  }
  return columns;
}

/// Whether it is a table, and its columns as `column` gives them; those that are not in `names`: (name, None, "").
nb::tuple columns_of(const nb::object& exporter, const std::optional<std::vector<std::string>>& names) {
  Source source = read(exporter);
  nb::list columns;
  const ArrowSchema& schema = *source.schema;
  const bool table = std::strcmp(schema.format, "+s") == 0;
  if (!table) {
    std::vector<Rows> parts;
    for (const auto& chunk : source.chunks) parts.push_back({chunk, 0, chunk->length});
    source.chunks.clear();
    columns.append(column(schema, parts));
    return nb::make_tuple(false, columns);
  }
  std::vector<std::vector<Rows>> parts = rows_of_columns(schema, source.chunks);
  source.chunks.clear();
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const ArrowSchema& one = *schema.children[i];
    const std::string name = one.name == nullptr ? "" : one.name;
    if (names && std::find(names->begin(), names->end(), name) == names->end())
      columns.append(nb::make_tuple(name, nb::none(), ""));
    else
      columns.append(column(one, parts[i]));
    parts[i].clear();  // what was copied is not needed any more
  }
  return nb::make_tuple(true, columns);
}

// Writing

struct ExportedSchema {
  std::string format;
  ArrowSchema item{};
  ArrowSchema* items[1] = {&item};
};

struct ExportedArray {
  Tensor tensor;
  std::vector<std::uint8_t> bits;  ///< of bool, which Arrow packs
  const void* buffers[2] = {nullptr, nullptr};
  ArrowArray item{};
  ArrowArray* items[1] = {&item};
};

/// Lets go of an exported struct and of the item in it, where nobody has taken that over.
template <class Exported, class Struct>
void release(Struct* one) {
  auto* const own = static_cast<Exported*>(one->private_data);
  if (own->item.release != nullptr) own->item.release(&own->item);
  delete own;
  one->release = nullptr;
}

/// The type of the axes from `axis` on: the last holds numbers, others are lists of fixed size.
void write(ArrowSchema& out, const Type& type, int axis) {
  const bool last = axis + 1 == type.shape.rank();
  auto* const own = new ExportedSchema;
  if (last) {
    for (const auto& [letter, dtype] : kFormats)
      if (dtype == type.dtype) own->format = letter;
  } else {
    own->format = "+w:" + std::to_string(std::int64_t{type.shape[axis + 1]});
    write(own->item, type, axis + 1);
  }
  out = {own->format.c_str(),
         axis == 0 ? "" : "item",
         nullptr,
         kNullable,
         last ? 0 : 1,
         own->items,
         nullptr,
         &release<ExportedSchema, ArrowSchema>,
         own};
}

void write(ArrowArray& out, const Tensor& tensor, int axis) {
  const bool last = axis + 1 == tensor.rank();
  auto* const own = new ExportedArray{tensor};
  std::int64_t length = 1;
  for (int i = 0; i <= axis; ++i) length *= std::int64_t{tensor.shape()[i]};
  if (last) own->buffers[1] = tensor.value()->storage->data();
  if (last && tensor.dtype() == DType::boolean) {
    const auto* const from = static_cast<const std::uint8_t*>(own->buffers[1]);
    own->bits.resize(static_cast<std::size_t>(length / 8 + 1));
    for (std::int64_t i = 0; i < length; ++i)
      own->bits[i / 8] = static_cast<std::uint8_t>(own->bits[i / 8] | (from[i] != 0) << (i % 8));
    own->buffers[1] = own->bits.data();
  }
  if (!last) write(own->item, tensor, axis + 1);
  out = {
      length, 0, 0, last ? 2 : 1, last ? 0 : 1, own->buffers, own->items, nullptr, &release<ExportedArray, ArrowArray>,
      own};
}

template <class Struct, class From>
nb::capsule exported(const char* name, const From& from) {
  auto own = std::make_unique<Struct>();
  write(*own, from, 0);
  return nb::capsule(own.release(), name, [](void* held) noexcept {
    auto* const one = static_cast<Struct*>(held);
    if (one->release != nullptr) one->release(one);
    delete one;
  });
}

/// The dtype of the numbers that a schema asks for; None where it asks for something else.
nb::object dtype_of_schema(const nb::object& capsule) {
  const void* const schema = PyCapsule_GetPointer(capsule.ptr(), "arrow_schema");
  if (schema == nullptr) throw nb::python_error();
  const std::optional<DType> dtype = content_of(*static_cast<const ArrowSchema*>(schema)).dtype;
  return dtype ? nb::object(nb::str(std::string(name(*dtype)).c_str())) : nb::none();
}

/// The capsules of schema and array. A snapshot, so that a tensor that changes leaves the exported memory as it is.
nb::tuple array_of(const Tensor& tensor) {
  require(tensor.rank() > 0, "arrow: a tensor of one number has no rows; export x.reshape(1)");
  require(tensor.dtype() != DType::bf16, "arrow: there is no type for bf16; export x.float()");
  const Tensor kept = snapshot(on_host(tensor));
  return nb::make_tuple(exported<ArrowSchema>("arrow_schema", kept.type()), exported<ArrowArray>("arrow_array", kept));
}

}  // namespace

void bind_arrow(nb::module_& module) {
  module.def("arrow_columns", &columns_of, nb::arg("exporter"), nb::arg("names") = nb::none());
  module.def("arrow_array", &array_of);
  module.def("arrow_dtype", &dtype_of_schema);
}

}  // namespace neurim::python
