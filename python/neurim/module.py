"""Modules: what networks are built of. The habits are those of torch.nn."""

from __future__ import annotations

import copy
import os
import weakref
from collections.abc import Callable, ItemsView, Iterable, Iterator, KeysView, Mapping, Sequence, ValuesView
from itertools import chain
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, overload

from . import _core
from ._core import Tensor, UsageError
from .tensors import tensor as tensor_of

if TYPE_CHECKING:
    from .reports import Metrics
    from .runs import Export, Run

M = TypeVar("M", bound="Module")


# The frozen tensors by identity. The flag is the tensor's own, so that optimizers find it without the module.
_frozen: dict[int, weakref.ref[Tensor]] = {}


def is_frozen(tensor: Tensor) -> bool:
    """Whether Module.requires_grad_ or Parameter has frozen the tensor; optimizers and gradients leave it out."""
    return tensor._identity() in _frozen


def _set_frozen(tensor: Tensor, frozen: bool) -> None:
    identity: int = tensor._identity()
    if frozen:
        _frozen[identity] = weakref.ref(tensor, lambda _: _frozen.pop(identity, None))
    else:
        _frozen.pop(identity, None)


class _Learnt:
    """A learnt tensor of a module."""

    def __init__(self, data: Tensor, requires_grad: bool) -> None:
        self.data = data
        self.requires_grad = requires_grad

    @property
    def requires_grad(self) -> bool:
        """Whether the tensor is trained."""
        return not is_frozen(self.data)

    @requires_grad.setter
    def requires_grad(self, requires_grad: bool) -> None:
        _set_frozen(self.data, not requires_grad)

    def __reduce__(self) -> tuple[Any, ...]:
        return _Learnt, (self.data, self.requires_grad)


def Parameter(data: Any, requires_grad: bool = True) -> Any:
    """Marks a tensor as learnt: `self.weight = nm.Parameter(nm.randn((3, 4)))`, in a module.

    The attribute then reads as the tensor itself. With `requires_grad=False` it is frozen; see Module.requires_grad_.
    Of a list or an array a tensor is made. Throws UsageError for one that is to be trained and is not floating.
    """
    tensor = data if isinstance(data, Tensor) else data.data if isinstance(data, _Learnt) else tensor_of(data)
    if requires_grad and not _core.is_floating(tensor.dtype):
        raise UsageError(f"Parameter: the tensor is {tensor.dtype}, which cannot be trained; convert it to f32, or give requires_grad=False")
    return _Learnt(tensor, requires_grad)


class LoadResult(NamedTuple):
    """What Module.load_state_dict has found to differ."""

    missing_keys: list[str]  # of the module, but not of the state
    unexpected_keys: list[str]  # of the state, but not of the module


class Module:
    """Base class of layers and networks.

    A subclass assigns tensors marked by Parameter, and other modules, to its attributes, and defines `forward` (or
    `__call__` itself). `super().__init__()` may be called or left out. A plain tensor is an attribute like any other:
    it is neither saved nor learnt; `register_buffer` makes it saved.

    `training` is True until `eval()` or `train(False)`. Dropout and batch normalization train where it is True and the
    code runs in a trace for training, such as that of `nm.compile(..., training=True)`; everywhere else they infer. A
    trace keeps the mode in which it was recorded.
    """

    training: bool = True
    _parameters: dict[str, _Learnt]
    _buffers: dict[str, Tensor]
    _modules: dict[str, Module]
    _transient: set[str]  # the names of buffers that are not saved
    _fitted: Any = None  # what is known of the last training

    def __new__(cls: type[M], *args: Any, **kwargs: Any) -> M:
        self = super().__new__(cls)
        self.__dict__.update(_parameters={}, _buffers={}, _modules={}, _transient=set())
        return self

    def __init__(self) -> None:
        """Does nothing; __new__ has made all that a module needs."""

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Computes the outputs. Each subclass has its own."""
        raise NotImplementedError(f"{type(self).__name__} defines no forward")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Calls forward."""
        return self.forward(*args, **kwargs)

    # Attributes

    def __getattr__(self, name: str) -> Any:
        if name in self._parameters:
            return self._parameters[name].data
        for entries in (self._buffers, self._modules):
            if name in entries:
                return entries[name]
        raise AttributeError(f"{type(self).__name__} has no attribute '{name}'")

    def __setattr__(self, name: str, value: Any) -> None:
        """Registers parameters and modules.

        A tensor assigned to a parameter takes its place, which ties weights: `self.head.weight = self.embed.weight`.
        One assigned to a buffer is written into it, so that a replayed trace keeps it; one of another shape or dtype
        takes its place. Raises UsageError for any other attribute that would be a value of a trace: no replay sets it,
        and for what would silently take the place of a parameter, a buffer or a module: None may, and `del` removes it.
        """
        self._check_kind(name, value)
        if isinstance(value, Tensor) and name in self._buffers:
            buffer = self._buffers[name]
            if buffer.shape == value.shape and buffer.dtype == value.dtype:
                buffer.assign(value)
                return
        _check_stored(name, value.data if isinstance(value, _Learnt) else value)
        if isinstance(value, Tensor) and name in self._parameters:
            self._parameters[name].data = value
        elif isinstance(value, Tensor) and name in self._buffers:
            self._buffers[name] = value
        elif isinstance(value, _Learnt):
            self._forget(name)
            self._parameters[name] = value
        elif isinstance(value, Module):
            if name not in self._modules:
                self._forget(name)
            self._modules[name] = value
        else:
            self._forget(name)
            object.__setattr__(self, name, value)

    def _check_kind(self, name: str, value: Any) -> None:
        """Throws UsageError where a registered name is assigned what is none of its kind."""
        if value is None or isinstance(value, (Module, _Learnt)):
            return
        if name in self._modules:
            kind, wanted = "module", "assign a Module"
        elif isinstance(value, Tensor) or not (name in self._parameters or name in self._buffers):
            return
        else:
            kind = "parameter" if name in self._parameters else "buffer"
            wanted = "assign a tensor" + (", or nm.Parameter(…)" if kind == "parameter" else "")
        raise UsageError(f"{type(self).__name__}.{name} is a {kind}, and gets a {type(value).__name__}; {wanted}, or remove it first: del module.{name}")

    def __delattr__(self, name: str) -> None:
        if not self._forget(name):
            raise AttributeError(f"{type(self).__name__} has no attribute '{name}'")

    def _forget(self, name: str) -> bool:
        """Removes whatever has this name; whether there was something."""
        self._transient.discard(name)
        holders = [e for e in (self._parameters, self._buffers, self._modules, self.__dict__) if name in e]
        for entries in holders:
            del entries[name]
        return bool(holders)

    def register_parameter(self, name: str, param: Any) -> None:
        """Assigns the attribute `name`: what Parameter gives, or None."""
        setattr(self, name, param)

    def register_buffer(self, name: str, tensor: Tensor | None, persistent: bool = True) -> None:
        """Makes the tensor an attribute that is not learnt, but saved by state_dict unless `persistent` is False.

        Raises UsageError for a value of a trace.
        """
        _check_stored(name, tensor)
        self._forget(name)
        if tensor is None:
            object.__setattr__(self, name, None)
            return
        self._buffers[name] = tensor
        if not persistent:
            self._transient.add(name)

    def add_module(self, name: str, module: Module | None) -> None:
        """Assigns the attribute `name`."""
        setattr(self, name, module if module is None else _module(type(self).__name__, module))

    def get_submodule(self, target: str) -> Module:
        """The module of that full name, "layer1.0"; of "" this one. Raises AttributeError where there is none."""
        module: Module = self
        for name in target.split(".") if target else []:
            if name not in module._modules:
                raise AttributeError(f"{type(module).__name__} has no module '{name}' (of '{target}')")
            module = module._modules[name]
        return module

    def get_parameter(self, target: str) -> Tensor:
        """The parameter of that full name, "layer1.0.weight". Raises AttributeError where there is none."""
        path, _, name = target.rpartition(".")
        module = self.get_submodule(path)
        if name not in module._parameters:
            raise AttributeError(f"{type(module).__name__} has no parameter '{name}' (of '{target}')")
        return module._parameters[name].data

    # Visits

    def _walk(self, prefix: str) -> Iterator[tuple[str, Module]]:
        """This module and all inside, with their paths; one that is shared comes under each of its paths."""
        yield prefix, self
        for name, child in self._modules.items():
            yield from child._walk(_joined(prefix, name))

    def _learnt(self, prefix: str = "", recurse: bool = True) -> Iterator[tuple[str, _Learnt]]:
        """The parameters with their names; those that share a tensor come once."""
        seen: set[int] = set()
        for path, module in self._walk(prefix) if recurse else [(prefix, self)]:
            for name, parameter in module._parameters.items():
                if id(parameter.data) not in seen:
                    seen.add(id(parameter.data))
                    yield _joined(path, name), parameter

    def named_parameters(
        self, prefix: str = "", recurse: bool = True, *, learnt: bool = False
    ) -> Iterator[tuple[str, Tensor]]:
        """The parameters by full names, "layer1.0.weight"; a tied one comes once. `learnt` leaves out frozen ones."""
        for name, parameter in self._learnt(prefix, recurse):
            if parameter.requires_grad or not learnt:
                yield name, parameter.data

    def parameters(self, recurse: bool = True, *, learnt: bool = False) -> Iterator[Tensor]:
        """The parameters, in the order of named_parameters."""
        for _, tensor in self.named_parameters(recurse=recurse, learnt=learnt):
            yield tensor

    def named_buffers(self, prefix: str = "", recurse: bool = True) -> Iterator[tuple[str, Tensor]]:
        """The buffers and their full names; a shared one comes once."""
        seen: set[int] = set()
        for path, module in self._walk(prefix) if recurse else [(prefix, self)]:
            for name, tensor in module._buffers.items():
                if id(tensor) not in seen:
                    seen.add(id(tensor))
                    yield _joined(path, name), tensor

    def buffers(self, recurse: bool = True) -> Iterator[Tensor]:
        """The buffers, in the order of named_buffers."""
        for _, tensor in self.named_buffers(recurse=recurse):
            yield tensor

    def named_children(self) -> Iterator[tuple[str, Module]]:
        """The modules that are attributes of this one, with their names."""
        yield from self._modules.items()

    def children(self) -> Iterator[Module]:
        """The modules that are attributes of this one."""
        yield from self._modules.values()

    def named_modules(self, prefix: str = "") -> Iterator[tuple[str, Module]]:
        """This module and all inside, with their full names; a shared one comes once."""
        seen: set[int] = set()
        for path, module in self._walk(prefix):
            if id(module) not in seen:
                seen.add(id(module))
                yield path, module

    def modules(self) -> Iterator[Module]:
        """This module and all inside."""
        for _, module in self.named_modules():
            yield module

    def num_parameters(self, *, learnt: bool = False) -> int:
        """The number of values in the parameters."""
        return sum(prod(tensor.shape) for tensor in self.parameters(learnt=learnt))

    # Modes

    def train(self: M, mode: bool = True) -> M:
        """Sets `training` here and in all modules inside."""
        for module in self.modules():
            module.training = mode
        return self

    def eval(self: M) -> M:
        """train(False)."""
        return self.train(False)

    def requires_grad_(self: M, requires_grad: bool = True) -> M:
        """Freezes (False) or unfreezes all parameters.

        Optimizers and value_and_grad leave out frozen ones when they are made, and so does `parameters(learnt=True)`.
        """
        for _, parameter in self._learnt():
            parameter.requires_grad = requires_grad
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Does nothing: gradients are values, and nothing adds them up."""

    def fit(self, data: Any, labels: Any = None, **options: Any) -> Run:
        """Trains on data of images, with the options of `neurim train`: epochs, batch, lr, opt, mixup, …; a Run.

        `data`: a Data, a path, or images with `labels` as nm.data.arrays takes them; these may come with
        `validation_data`, the same as a pair, or `validation_split`. `callbacks` and `verbose` are options too. The
        weights become the last ones of the training; those of the best epoch are in the run's folder. Ctrl-C ends it
        after the step, saved, with KeyboardInterrupt.
        """
        from .runs import fit_model

        return fit_model(self, data, labels, options)

    def evaluate(self, data: Any, labels: Any = None, *, split: str | None = None, **options: Any) -> Metrics:
        """The metrics of the present weights on images.

        `data`: as for fit. `split`: by default val, of images with `labels` all of them. After fit the images are brought
        to the input as in training, unless options say otherwise, and the classes have to be those of training.
        """
        from .runs import evaluate_model

        return evaluate_model(self, data, labels, split, options)

    def predict(self, source: Any, topk: int | None = None) -> Any:
        """What images show by the present weights, after fit: a path, an array u8 (H,W[,C]), or a list; see nm.load.

        Throws UsageError where the model was not trained, and DataError for an image that cannot be read.
        """
        from .runs import predict_model

        return predict_model(self, source, topk)

    def export(self, path: str | os.PathLike[str], *, dynamic: bool = True) -> Export:
        """Writes the present weights as ONNX, with what is done to images and the classes of the last fit; an Export.

        `dynamic`: of any number of images, else of one. In a trace for any number x.shape[0] is no int, but can be
        multiplied, divided and given to reshape, zeros and expand. Throws UsageError where forward needs it as a number,
        and where the model was not trained.
        """
        from .runs import export_model

        return export_model(self, path, dynamic)

    def apply(self: M, fn: Callable[[Module], Any]) -> M:
        """Calls fn with each module inside, then with this one."""
        for child in self.children():
            child.apply(fn)
        fn(self)
        return self

    def to(self: M, target: str) -> M:
        """Moves all tensors to a device, or converts the floating ones to a dtype.

        A conversion makes new tensors: build optimizers after it.
        """
        made: dict[int, tuple[Tensor, Tensor]] = {}  # by id; a tied tensor is converted once and stays tied

        def converted(tensor: Tensor) -> Tensor:
            if id(tensor) not in made:
                made[id(tensor)] = tensor, _converted(tensor, target)
                _set_frozen(made[id(tensor)][1], is_frozen(tensor))
            return made[id(tensor)][1]

        for module in self.modules():
            for parameter in module._parameters.values():
                parameter.data = converted(parameter.data)
            module._buffers.update({name: converted(tensor) for name, tensor in module._buffers.items()})
        return self

    # States

    def state_dict(self, prefix: str = "") -> dict[str, Tensor]:
        """The parameters and the buffers by PyTorch's names; a tied parameter comes under each of its names.

        PyTorch's counters num_batches_tracked are left out; its load_state_dict does without them.
        """
        state: dict[str, Tensor] = {}
        for path, module in self._walk(prefix):
            state.update({_joined(path, name): parameter.data for name, parameter in module._parameters.items()})
            state.update(
                {
                    _joined(path, name): tensor
                    for name, tensor in module._buffers.items()
                    if name not in module._transient
                }
            )
        return state

    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool = True) -> LoadResult:
        """Writes the values into the module's tensors, converted to their dtypes; optimizers keep these tensors.

        Values are tensors of Neurim or of PyTorch, or NumPy arrays. PyTorch's counters num_batches_tracked are passed
        over. Raises UsageError, before anything is written, if a shape differs, and unless `strict` is False also if a
        name is missing or unexpected.
        """
        own = self.state_dict()
        missing = [name for name in own if name not in state_dict]
        unexpected = [
            name for name in state_dict if name not in own and name.rpartition(".")[2] != "num_batches_tracked"
        ]
        values = {name: tensor_of(state_dict[name]) for name in own if name in state_dict}
        wrong = [
            f"{name} is {tuple(value.shape)}, expected {tuple(own[name].shape)}"
            for name, value in values.items()
            if tuple(value.shape) != tuple(own[name].shape)
        ]
        faults = [("these shapes differ", wrong)]
        if strict:
            faults += [("these names are missing", missing), ("these names are unexpected", unexpected)]
        told = [f"{what}: {', '.join(names)}" for what, names in faults if names]
        if told:
            raise UsageError(f"load_state_dict: the state does not fit {type(self).__name__}; {'; '.join(told)}")
        for name, value in values.items():
            own[name].assign(value.to(own[name].dtype).to(own[name].device))
        return LoadResult(missing, unexpected)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes state_dict() as a safetensors file, atomically. Raises ResourceError if it cannot be written."""
        from .safetensors import save

        save(self.state_dict(), path)

    def load(self, path: str | os.PathLike[str], strict: bool = True) -> LoadResult:
        """Reads a safetensors file into the module's tensors, as load_state_dict does.

        Raises DataError for a file that is missing or damaged, and UsageError for one that does not fit.
        """
        from .safetensors import load

        return self.load_state_dict(load(path), strict)

    def __deepcopy__(self: M, memo: dict[int, Any]) -> M:
        """A module with tensors of its own; what was tied stays tied."""
        plain = (value for module in self.modules() for value in module.__dict__.values() if isinstance(value, Tensor))
        for tensor in chain(self.parameters(), self.buffers(), plain):
            if id(tensor) not in memo:
                memo[id(tensor)] = tensor.clone()
        twin = type(self).__new__(type(self))
        memo[id(self)] = twin
        twin.__dict__.update(copy.deepcopy(self.__dict__, memo))
        return twin

    def extra_repr(self) -> str:
        """What __repr__ prints of the options of a layer."""
        return ""

    def __repr__(self) -> str:
        inside = [f"({name}): " + repr(child).replace("\n", "\n  ") for name, child in self._modules.items()]
        head = f"{type(self).__name__}({self.extra_repr()}"
        return "\n  ".join([head, *inside]) + "\n)" if inside else head + ")"


def _joined(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _module(owner: str, value: Any, name: str = "") -> Module:
    """The value, which has to be a module. Throws UsageError for what is none."""
    if isinstance(value, Module):
        return value
    shown = f"the class {value.__name__}" if isinstance(value, type) else f"a {type(value).__name__}"
    hint = "make one of it: call the class" if isinstance(value, type) else "give a layer, such as nn.ReLU() for F.relu, or a class of nm.Module"
    raise UsageError(f"{owner}: {name or 'an entry'} is {shown} and no Module; {hint}")


def _check_stored(name: str, value: object) -> None:
    if isinstance(value, Tensor) and value.traced:
        raise UsageError(
            f"{name}: a value of a trace cannot be kept; make it a buffer: self.register_buffer('{name}', …) "
            f"in __init__, of shape {value.shape} and dtype {value.dtype}"
        )


def _converted(tensor: Tensor, target: str) -> Tensor:
    """The tensor on a device or in a dtype; one that is not floating keeps its dtype."""
    moved: Tensor = tensor.to(target)
    return moved if moved.dtype == tensor.dtype or _core.is_floating(tensor.dtype) else tensor


class Identity(Module):
    """Gives its input. Arguments of the constructor have no effect."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Takes anything."""

    def forward(self, input: Tensor) -> Tensor:
        """The input itself."""
        return input


class _Listed(Module):
    """Modules named "0", "1", … or by keys, in an order."""

    def _name(self, index: int) -> str:
        names = list(self._modules)
        if not -len(names) <= index < len(names):
            raise IndexError(f"{type(self).__name__} has {len(names)} modules, and no number {index}")
        return names[index]

    @overload
    def __getitem__(self: M, index: slice) -> M: ...
    @overload
    def __getitem__(self, index: int) -> Any: ...
    def __getitem__(self, index: int | slice) -> Any:
        if not isinstance(index, slice):
            return self._modules[self._name(index)]
        part = type(self).__new__(type(self))
        part._modules.update(self._part(list(self._modules.items())[index]))
        return part

    def _part(self, entries: list[tuple[str, Module]]) -> Iterable[tuple[str, Module]]:
        """The names and modules of a slice."""
        return entries

    def __setitem__(self, index: int, module: Module) -> None:
        self._modules[self._name(index)] = _module(type(self).__name__, module)

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[Module]:
        return iter(self._modules.values())

    def append(self: M, module: Module) -> M:
        """Adds a module at the end, under the next number."""
        number = max([len(self._modules), *(int(name) + 1 for name in self._modules if name.isdecimal())])
        self._modules[str(number)] = _module(type(self).__name__, module)
        return self

    def extend(self: M, modules: Iterable[Module]) -> M:
        """Adds modules at the end."""
        if isinstance(modules, Tensor) or not isinstance(modules, Iterable):
            raise UsageError(f"{type(self).__name__}: takes modules, got a {type(modules).__name__}")
        for module in modules:
            self.append(module)
        return self


class Sequential(_Listed):
    """Modules that are called one after the other, each with what the one before gives.

    Takes them as arguments, as one list, or as one dictionary with their names.
    """

    def __init__(self, *modules: Module | Sequence[Module] | Mapping[str, Module]) -> None:
        """Takes modules, or one list or dictionary of them."""
        for module in modules:
            if isinstance(module, Mapping):
                self._modules.update(_named_modules("Sequential", module))
            elif len(modules) == 1 and isinstance(module, Iterable) and not isinstance(module, Module):
                self.extend(module)
            else:
                self.append(_module("Sequential", module))

    def forward(self, input: Any) -> Any:
        """What the last module gives."""
        for module in self:
            input = module(input)
        return input


class ModuleList(_Listed):
    """A list of modules, named "0", "1", …; it has no forward."""

    def __init__(self, modules: Iterable[Module] = ()) -> None:
        """Takes the modules in order."""
        self.extend(modules)

    def _part(self, entries: list[tuple[str, Module]]) -> Iterable[tuple[str, Module]]:
        return ((str(number), module) for number, (_, module) in enumerate(entries))


class ParameterList(Module):
    """A list of learnt tensors, named "0", "1", …; it has no forward."""

    def __init__(self, tensors: Iterable[Any] = ()) -> None:
        """Takes tensors, or what Parameter gives."""
        for tensor in tensors:
            self.append(tensor)

    def append(self: M, tensor: Any) -> M:
        """Adds a tensor at the end."""
        setattr(self, str(len(self)), tensor if isinstance(tensor, _Learnt) else Parameter(tensor))
        return self

    def __getitem__(self, index: int) -> Tensor:
        return list(self)[index]

    def __len__(self) -> int:
        return len(self._parameters)

    def __iter__(self) -> Iterator[Tensor]:
        return (parameter.data for parameter in self._parameters.values())


def _named_modules(owner: str, modules: Any) -> dict[str, Module]:
    """A dictionary of modules, or pairs. Throws UsageError where a name is no text, or a value no module."""
    named = dict(modules)
    for name, module in named.items():
        if not isinstance(name, str):
            raise UsageError(f"{owner}: a name is {name!r}; names are texts")
        _module(owner, module, f"'{name}'")
    return named


class ModuleDict(Module):
    """Modules by name; it has no forward."""

    def __init__(self, modules: Mapping[str, Module] | Iterable[tuple[str, Module]] = ()) -> None:
        """Takes a dictionary, or pairs of a name and a module."""
        self._modules.update(_named_modules("ModuleDict", modules))

    def __getitem__(self, name: str) -> Any:
        return self._modules[name]

    def __setitem__(self, name: str, module: Module) -> None:
        self._modules.update(_named_modules("ModuleDict", {name: module}))

    def __contains__(self, name: str) -> bool:
        return name in self._modules

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[str]:
        return iter(self._modules)

    def keys(self) -> KeysView[str]:
        """The names."""
        return self._modules.keys()

    def values(self) -> ValuesView[Module]:
        """The modules."""
        return self._modules.values()

    def items(self) -> ItemsView[str, Module]:
        """The names with the modules."""
        return self._modules.items()
