// Tensors, and memory that they share with arrays of others by DLPack (dmlc.github.io/dlpack).
#include <nanobind/ndarray.h>

#include <cstdint>

#include "neurim/graph/value.h"
#include "neurim/python/bindings.h"

namespace neurim::python {

namespace {

using Array = nb::ndarray<nb::ro, nb::c_contig, nb::device::cpu>;

constexpr std::uintptr_t kAlignment = 16;  // bytes, that kernels ask of memory which is not ours

nb::dlpack::dtype dlpack_of(DType dtype) {
  using Code = nb::dlpack::dtype_code;
  const Code code = dtype == DType::boolean ? Code::Bool
                    : dtype == DType::bf16  ? Code::Bfloat
                    : is_floating(dtype)    ? Code::Float
                    : dtype == DType::i64 || dtype == DType::i32 || dtype == DType::i16 || dtype == DType::i8
                        ? Code::Int
                        : Code::UInt;
  return {static_cast<std::uint8_t>(code), static_cast<std::uint8_t>(bits(dtype)), 1};
}

DType dtype_of(const nb::dlpack::dtype& other) {
  for (const DType dtype : kDTypes)
    if (dlpack_of(dtype) == other) return dtype;
  fail(Fault::usage, "array: elements of kind ", static_cast<int>(other.code), " with ", static_cast<int>(other.bits),
       " bits are not known; convert it to one of float64, float32, float16, bfloat16, bool or an integer first");
}

Type type_of(const Array& array) {
  std::vector<Dim> sizes;
  for (std::size_t i = 0; i < array.ndim(); ++i) sizes.push_back(static_cast<std::int64_t>(array.shape(i)));
  return {dtype_of(array.dtype()), shape_of(sizes)};
}

/// Storage::frozen of memory that may not be written: whoever changes such a tensor makes a copy first, as for a
/// snapshot that is never let go.
const std::shared_ptr<void>& read_only() {
  static const std::shared_ptr<void> token = std::make_shared<char>();
  return token;
}

template <class... Framework>
nb::object array_of(const Tensor& tensor) {
  const Tensor host = on_host(tensor);
  std::vector<std::size_t> sizes;
  for (const Dim& size : host.shape()) sizes.push_back(static_cast<std::size_t>(std::int64_t{size}));
  auto* const storage = new std::shared_ptr<Storage>(host.value()->storage);
  const nb::capsule owner(storage, [](void* own) noexcept { delete static_cast<std::shared_ptr<Storage>*>(own); });
  void* const data = (*storage)->data();
  const nb::dlpack::dtype dtype = dlpack_of(host.dtype());
  if ((*storage)->frozen == read_only())
    return nb::cast(nb::ndarray<Framework..., nb::ro>(data, sizes.size(), sizes.data(), owner, nullptr, dtype));
  return nb::cast(nb::ndarray<Framework...>(data, sizes.size(), sizes.data(), owner, nullptr, dtype));
}

}  // namespace

DType dtype_of(std::string_view name) {
  static const std::pair<std::string_view, DType> others[] = {
      {"float64", DType::f64}, {"double", DType::f64}, {"float32", DType::f32},   {"float", DType::f32},
      {"float16", DType::f16}, {"half", DType::f16},   {"bfloat16", DType::bf16}, {"int64", DType::i64},
      {"long", DType::i64},    {"int32", DType::i32},  {"int", DType::i32},       {"int16", DType::i16},
      {"int8", DType::i8},     {"uint64", DType::u64}, {"uint32", DType::u32},    {"uint16", DType::u16},
      {"uint8", DType::u8}};
  if (const auto own = dtype_named(name)) return *own;
  for (const auto& [other, dtype] : others)
    if (other == name) return dtype;
  std::vector<std::string> known;
  for (const DType dtype : kDTypes) known.emplace_back(neurim::name(dtype));
  fail(Fault::usage, "dtype: '", name, "' is not known; known are ", join(known, ", "));
}

Tensor borrowed(const Type& type, const void* data, std::shared_ptr<void> owner, bool read_only) {
  if (reinterpret_cast<std::uintptr_t>(data) % kAlignment != 0 || bytes(type) == 0) return Tensor::from(type, data);
  auto value = std::make_shared<Value>();
  value->type = type;
  value->storage = std::make_shared<Storage>(const_cast<void*>(data), bytes(type), std::move(owner));
  if (read_only) value->storage->frozen = python::read_only();
  return Tensor(std::move(value));
}

Tensor on_host(const Tensor& tensor) {
  require(!tensor.traced(), "a value of a trace has no data: it is there when the compiled function has returned");
  return plain(tensor.to(Device{}));
}

Shape shape_of(const std::vector<Dim>& sizes) {
  for (const Dim size : sizes) require(size >= 0, "shape: a size is ", size, "; it is 0 or more");
  require(sizes.size() <= Shape::kMaxRank, "shape: there are ", sizes.size(), " axes; at most ", Shape::kMaxRank);
  return Shape(std::span<const Dim>(sizes));
}

void bind_tensors(nb::module_& module) {
  nb::class_<Tensor>(module, "Tensor", nb::is_weak_referenceable())
      .def(
          "__init__",
          [](Tensor* self, const nb::object& data, const nb::object& dtype) {
            const nb::object make = nb::module_::import_("neurim.tensors").attr("tensor");
            new (self) Tensor(nb::cast<Tensor>(make(data, dtype)));
          },
          nb::arg("data").none(), nb::arg("dtype") = nb::none())
      .def_prop_ro("shape",
                   [](const Tensor& t) {
                     nb::list sizes;
                     for (const Dim& size : t.shape()) sizes.append(nb::cast(size));
                     return nb::tuple(sizes);
                   })
      .def_prop_ro("dtype", [](const Tensor& t) { return std::string(name(t.dtype())); })
      .def_prop_ro("ndim", &Tensor::rank)
      .def_prop_ro("device", [](const Tensor& t) { return text(t.device()); })
      .def_prop_ro("traced", &Tensor::traced)
      .def_prop_rw(
          "name", [](const Tensor& t) { return std::string(t.name()); },
          [](const Tensor& t, std::string name) { t.set_name(std::move(name)); })
      .def(
          "item",
          [](const Tensor& t) -> nb::object {
            require(
                !t.traced(),
                "a value of a trace has no number yet: a compiled function may not branch on values; return it, or use "
                "nm.where");
            require(t.numel() == 1, "item: the tensor has ", t.numel(), " elements; it is for tensors of one");
            if (t.dtype() == DType::boolean) return nb::bool_(t.item() != 0);
            if (is_floating(t.dtype())) return nb::float_(t.item());
            return nb::int_(t.values<std::int64_t>()[0]);
          })
      .def("assign", &Tensor::assign, nb::arg("other"))
      .def("clone", &Tensor::clone)
      .def("_place", [](const Tensor& t, const std::string& device) { t.place(device_named(device)); })
      .def("_on", [](const Tensor& t, const std::string& device) { return t.to(device_named(device)); })
      .def("_identity", [](const Tensor& t) { return reinterpret_cast<std::uintptr_t>(t.value()); })
      .def("_numpy", &array_of<nb::numpy>)
      .def("_exchange", &array_of<nb::array_api>)
      .def("data_ptr",
           [](const Tensor& t) { return reinterpret_cast<std::uintptr_t>(on_host(t).value()->storage->data()); });
  module.def(
      "tensor_from",
      [](const Array& array, bool share, bool read_only) {
        const Type type = type_of(array);
        return share ? borrowed(type, array.data(), held(nb::cast(array)), read_only)
                     : Tensor::from(type, array.data());
      },
      nb::arg("array"), nb::arg("share"), nb::arg("read_only") = false);
  module.def("full", [](const std::vector<Dim>& sizes, double value, const std::string& dtype) {
    const Shape shape = shape_of(sizes);
    if (std::any_of(sizes.begin(), sizes.end(), [](Dim size) { return size.symbolic(); }))
      return broadcast_to(Tensor::full({dtype_of(dtype), {}}, value), shape);
    return Tensor::full({dtype_of(dtype), shape}, value);
  });
  module.def("dtype_named", [](const std::string& name) { return std::string(neurim::name(dtype_of(name))); });
  module.def("is_floating", [](const std::string& name) { return is_floating(dtype_of(name)); });
  module.def("fill", [](const Tensor& tensor, const std::string& kind, double a, double b, std::uint64_t seed,
                        const std::string& name) {
    require(tensor.dtype() == DType::f32, "fill: draws f32, not ", tensor.dtype());
    nn::Init init;
    if (kind == "uniform")
      init = nn::uniform(a, b);
    else if (kind == "normal")
      init = nn::normal(a, b);
    else if (kind == "trunc_normal")
      init = nn::trunc_normal(a, b, a - 2 * b, a + 2 * b);
    else if (kind == "constant")
      init = nn::constant(a);
    else
      fail(Fault::usage, "fill: there is no '", kind, "'; known are uniform, normal, trunc_normal, constant");
    nn::fill(tensor, init, seed, name);
  });
}

}  // namespace neurim::python
