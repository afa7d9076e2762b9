"""Definitions that no command, page or public name reaches: code that only tests call.

Every top-level function, class and constant and every method is a definition. One is live when a
live definition, or the code of a module that runs at its import, refers to it. Names are resolved
through imports; methods are matched by their name alone, and so are strings that are one identifier
(tables of commands and of lazily imported names), so what is reported is dead.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

IDENTIFIER = re.compile(r"[\w.:-]+")
QUOTED = re.compile(r"[\w.]+([\[|, \]]+[\w.]*)+")
_PLAIN_DECORATORS = {
    *("property", "staticmethod", "classmethod", "cached_property", "abstractmethod"),
    *("contextmanager", "cache", "lru_cache", "setter", "dataclass", "overload", "total_ordering"),
}
"""Decorators that hand the function to nobody who would call it."""


@dataclass
class Definition:
    """A function, class, constant or method, and what its code refers to."""

    place: str
    name: str
    code: list[ast.AST]
    owner: str | None = None
    """The place of its class, of a method."""
    is_called_elsewhere: bool = False
    """By a protocol or by whom it is registered with: live if its class or module is."""


@dataclass
class Module:
    """A file: its definitions, what its names stand for, and the code that runs at import."""

    name: str
    definitions: dict[str, Definition] = field(default_factory=dict)
    methods: list[Definition] = field(default_factory=list)
    imported: dict[str, str] = field(default_factory=dict)
    body: list[ast.AST] = field(default_factory=list)
    exported: set[str] = field(default_factory=set)


def unreachable(
    source: Path, package: str, entries: Iterable[str], methods: Iterable[str] = ()
) -> list[str]:
    """Places of the definitions below `source/package` that nothing reaches, in order.

    `methods` are names of methods that users call. An entry is a definition, a module whose
    exports (`__all__`, `import a as a`) and own names without an underscore are public, or with
    `.*` a package whose every definition is.
    """
    modules = {
        module.name: module
        for path in sorted((source / package).rglob("*.py"))
        if (module := _read(path, source))
    }
    search = _Search(modules)
    search.words.update(methods)
    for entry in entries:
        name = entry.removesuffix(".*")
        search.publish([entry])
        for module in modules.values():
            if module.name == name and not entry.endswith(".*"):
                own = (word for word in module.definitions if not re.match("_(?!_)", word))
                search.publish(f"{name}.{word}" for word in (*module.exported, *own))
            elif entry.endswith(".*") and f"{module.name}.".startswith(f"{name}."):
                search.publish(f"{module.name}.{word}" for word in module.definitions)
    for module in modules.values():
        search.visit(module.body, module)
        for definition in module.definitions.values():
            if definition.is_called_elsewhere:
                search.refer([definition.place])
    search.run()
    return search.dead()


class _Search:
    def __init__(self, modules: Mapping[str, Module]) -> None:
        self.modules = modules
        self.home = {
            definition.place: module
            for module in modules.values()
            for definition in (*module.definitions.values(), *module.methods)
        }
        self.methods: dict[str, list[Definition]] = {}
        self.by_name: dict[str, list[Definition]] = {}
        for module in modules.values():
            for method in module.methods:
                self.methods.setdefault(method.name, []).append(method)
            for definition in module.definitions.values():
                self.by_name.setdefault(definition.name, []).append(definition)
        self.live: set[str] = set()
        self.words: set[str] = set()
        self.waiting: list[Definition] = []

    def run(self) -> None:
        """Follow references until nothing new is live."""
        while self.waiting:
            definition = self.waiting.pop()
            self.visit(definition.code, self.home[definition.place])

    def dead(self) -> list[str]:
        """What is not live; of a dead class only the class."""
        places = {place for place in self.home if place not in self.live}
        return sorted(place for place in places if place.rpartition(".")[0] not in places)

    def refer(self, places: Iterable[str]) -> None:
        """Make definitions live, each through the modules that import and export it."""
        for place in places:
            module_name, _, name = place.rpartition(".")
            module = self.modules.get(module_name)
            if module is None:
                continue
            if definition := module.definitions.get(name):
                self._revive(definition)
            elif module.imported.get(name, place) != place:
                self.refer([module.imported[name]])

    def publish(self, places: Iterable[str]) -> None:
        """Make definitions live, and of classes what users may call."""
        for place in places:
            before = set(self.live)
            self.refer([place])
            for class_place in self.live - before:
                for method in self.home[class_place].methods:
                    if method.owner == class_place and not method.name.startswith("_"):
                        self._revive(method)

    def visit(self, code: Iterable[ast.AST], module: Module) -> None:
        """Follow every name in code."""
        for name, is_dotted in _names(code):
            if not is_dotted:
                # A function may import what has the name of a definition of its module.
                self.refer([f"{module.name}.{name}", module.imported.get(name, name)])
                continue
            head, *rest = name.split(".")
            target = module.imported.get(head, f"{module.name}.{head}")
            for word in rest:
                target = f"{target}.{word}"
                self.refer([target])
                self._say(word)
                if word.isupper() and head not in module.imported:
                    # Of a module that was found by its folder: each has a constant of this name.
                    self._revive_all(word)
        for text in _identifiers(code):
            self._say(text)
            self._revive_all(text)

    def _revive_all(self, name: str) -> None:
        for definition in self.by_name.get(name, ()):
            self._revive(definition)

    def _say(self, word: str) -> None:
        """Make methods of a name live, if their class is."""
        if word in self.words:
            return
        self.words.add(word)
        for method in self.methods.get(word, ()):
            if method.owner in self.live:
                self._revive(method)

    def _revive(self, definition: Definition) -> None:
        if definition.place in self.live:
            return
        self.live.add(definition.place)
        self.waiting.append(definition)
        for method in self.home[definition.place].methods:
            if method.owner == definition.place and (
                method.is_called_elsewhere or method.name in self.words
            ):
                self._revive(method)


def _read(path: Path, source: Path) -> Module:
    parts = path.relative_to(source).with_suffix("").parts
    is_package = parts[-1] == "__init__"
    module = Module(".".join(parts[:-1] if is_package else parts))
    tree = ast.parse(path.read_text("utf-8"))
    for local, target in _local_imports([tree]):
        module.imported.setdefault(local, target)
    for statement in tree.body:
        _read_statement(statement, module)
    return module


def _read_statement(statement: ast.stmt, module: Module) -> None:
    match statement:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
            module.definitions[name] = Definition(
                f"{module.name}.{name}",
                name,
                [statement],
                is_called_elsewhere=_is_registered(statement) or name.startswith("__"),
            )
        case ast.ClassDef():
            _read_class(statement, module)
        case ast.Import() | ast.ImportFrom() | ast.If(test=ast.Name(id="TYPE_CHECKING")):
            module.exported.update(_exported(statement))
        case ast.Assign(targets=[ast.Name(id="__all__")]):
            module.exported.update(_identifiers([statement]))
        case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
            assert isinstance(statement, ast.Assign | ast.AnnAssign)
            code: list[ast.AST] = [] if statement.value is None else [statement.value]
            if isinstance(statement, ast.AnnAssign):
                code.append(statement.annotation)
            module.definitions[name] = Definition(f"{module.name}.{name}", name, code)
        case _:
            module.body.append(statement)


def _read_class(statement: ast.ClassDef, module: Module) -> None:
    place = f"{module.name}.{statement.name}"
    own: list[ast.AST] = [*statement.bases, *statement.decorator_list, *statement.keywords]
    # Methods of a class of another library are called by it.
    is_foreign = any(
        isinstance(base, ast.Name | ast.Attribute) and _is_foreign(base, module)
        for base in statement.bases
    )
    for child in statement.body:
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            registered = _is_registered(child) or child.name.startswith("__")
            if module.methods and module.methods[-1].place == f"{place}.{child.name}":
                # The setter of a property.
                module.methods[-1].code.append(child)
                continue
            module.methods.append(
                Definition(
                    f"{place}.{child.name}",
                    child.name,
                    [child],
                    owner=place,
                    is_called_elsewhere=registered or is_foreign,
                )
            )
        else:
            own.append(child)
    module.definitions[statement.name] = Definition(place, statement.name, own)


def _is_foreign(base: ast.Name | ast.Attribute, module: Module) -> bool:
    node: ast.expr = base
    while isinstance(node, ast.Attribute):
        node = node.value
    if not isinstance(node, ast.Name):
        return True
    target = module.imported.get(node.id)
    plain = {"typing", "dataclasses", "enum", "abc", "collections"}
    return target is not None and target.split(".")[0] not in {module.name.split(".")[0], *plain}


def _is_registered(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    for decorator in function.decorator_list:
        node = decorator.func if isinstance(decorator, ast.Call) else decorator
        name = node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")
        if name not in _PLAIN_DECORATORS:
            return True
    return False


def _names(code: Iterable[ast.AST]) -> Iterator[tuple[str, bool]]:
    """Names and dotted names in code; an attribute of anything else starts with a dot's word."""
    for root in code:
        for node in ast.walk(root):
            match node:
                case ast.Name(id=name):
                    yield name, False
                case ast.Attribute():
                    yield _dotted(node), True
                case ast.keyword(arg=str(name)):
                    yield f".{name}", True
                case ast.MatchClass(kwd_attrs=attributes):
                    yield from ((f".{name}", True) for name in attributes)
                case ast.Constant(value=str(text)) if not IDENTIFIER.fullmatch(text):
                    yield from _quoted(text)


def _quoted(text: str) -> Iterator[tuple[str, bool]]:
    """The names in an annotation that is a string, such as "Engine | None"."""
    if QUOTED.fullmatch(text):
        yield from ((word, "." in word) for word in re.findall(r"[\w.]+", text))


def _dotted(node: ast.Attribute) -> str:
    words: list[str] = []
    current: ast.expr = node
    while isinstance(current, ast.Attribute):
        words.append(current.attr)
        current = current.value
    words.append(current.id if isinstance(current, ast.Name) else "")
    return ".".join(reversed(words))


def _exported(statement: ast.stmt) -> Iterator[str]:
    """Names that `import a as a` exports."""
    for node in ast.walk(statement):
        if isinstance(node, ast.alias) and node.name == node.asname:
            yield node.name


def _identifiers(code: Iterable[ast.AST]) -> Iterator[str]:
    """Strings that are one identifier or a path of them."""
    for root in code:
        for node in ast.walk(root):
            match node:
                case ast.Constant(value=str(text)) if IDENTIFIER.fullmatch(text):
                    yield from re.split(r"[.:]", text)


def _local_imports(code: Iterable[ast.AST]) -> Iterator[tuple[str, str]]:
    """What each imported or lazily imported name stands for."""
    for root in code:
        for node in ast.walk(root):
            match node:
                case ast.Import(names=names):
                    for alias in names:
                        yield (
                            alias.asname or alias.name.split(".")[0],
                            (alias.name if alias.asname else alias.name.split(".")[0]),
                        )
                case ast.ImportFrom(module=str(base), names=names, level=0):
                    for alias in names:
                        yield alias.asname or alias.name, f"{base}.{alias.name}"
                case ast.Assign(
                    targets=[ast.Name(id=local)],
                    value=ast.Call(
                        func=ast.Name(id="LazyModule"), args=[ast.Constant(value=name), *_]
                    ),
                ):
                    yield local, str(name)
