"""Which names of `jax` a module uses, and where: read off its syntax tree, without running it.

A name in the program may stand for several things, as `xp` does after `xp = jnp if fast else np`; an *alias* is one
that is JAX's, by its path from `jax`. Statements are followed in the order in which they stand, branches side by side;
functions are looked into after the module that they stand in, since they are called later. What goes through
attributes of other objects, arguments, containers, strings (`getattr(jax, name)`) or other modules is not followed.
"""

import ast
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from .branches import Guards, Truth, truth

ROOTS = ("jax", "jaxlib")


class Argument(NamedTuple):
    """An argument that a call names: its value, if it is a literal, or else `value` is `UNKNOWN` or `HANDED_ON`."""

    keyword: str
    value: Any


class _Value:
    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return self.name


UNKNOWN = _Value("UNKNOWN")
HANDED_ON = _Value("HANDED_ON")  # `f(x, mode=mode)`: often the default


class Use(NamedTuple):
    """A name of JAX in the program: `jax.numpy.sum`, `jax.numpy.*` (all of it), `.lower` (a method of something).

    `given` is what the program has of it by another name, at whose binding an error would be raised: `jax.numpy` for
    `jnp.sum`. `guard` says why the program runs if the name is not there: `ImportError` or `AttributeError` (it is caught), `typing` (not
    evaluated), `version` or `hasattr` (a test that skips it), or is empty.
    """

    name: str
    line: int
    column: int
    given: str = ""
    guard: str = ""
    arguments: tuple[Argument, ...] = ()


Bindings = dict[str, frozenset[str | None]]
_OTHER: frozenset[str | None] = frozenset([None])  # what is not JAX's


def uses(tree: ast.Module, has: Callable[[str], bool]) -> list[Use]:
    """Return the uses of JAX's names in a module, in the order in which they stand; `has` answers its `hasattr`."""
    reader = _Reader(has)
    reader.read(tree)
    found = sorted(set(reader.uses), key=lambda use: (use.line, use.column, use.name))
    # A method is told by its name alone, which says something only in a module that has to do with JAX.
    return found if any(not use.name.startswith(".") for use in found) else []


class _Scope:
    """The names of a module, class or function."""

    def __init__(self, parent: "_Scope | None" = None, is_class: bool = False) -> None:
        self.parent, self.is_class = parent, is_class
        self.bindings: Bindings = {}
        self.elsewhere: dict[str, _Scope] = {}  # names declared global or nonlocal

    def lookup(self, name: str) -> frozenset[str | None]:
        scope: _Scope | None = self
        while scope is not None:
            if name in scope.bindings and (scope is self or not scope.is_class):
                return scope.bindings[name]
            scope = scope.parent
        return _OTHER

    def bind(self, name: str, meanings: frozenset[str | None]) -> None:
        if name in self.elsewhere:
            owner = self.elsewhere[name]
            owner.bindings[name] = owner.bindings.get(name, frozenset()) | meanings
        else:
            self.bindings[name] = meanings

    def outermost(self) -> "_Scope":
        return self if self.parent is None else self.parent.outermost()


class _Reader(ast.NodeVisitor):
    """Follows the statements of a module, and notes uses."""

    def __init__(self, has: Callable[[str], bool]) -> None:
        self.has = has
        self.scope = _Scope()
        self.uses: list[Use] = []
        self.guards = Guards()
        self.later: list[Callable[[], None]] = []
        self.evaluates_annotations = True

    def read(self, tree: ast.Module) -> None:
        self._each(tree.body)
        while self.later:
            self.later.pop(0)()

    def _each(self, nodes: Iterable[ast.AST | None]) -> None:
        for node in nodes:
            if node is not None:
                self.visit(node)

    # ------------------------------------------------------------------------------------------------ what names mean

    def _meanings(self, node: ast.expr) -> frozenset[str | None]:
        """Return what an expression may be: paths of JAX, and None for anything else."""
        match node:
            case ast.Name():
                return self.scope.lookup(node.id)
            case ast.Attribute():
                return frozenset(path and f"{path}.{node.attr}" for path in self._meanings(node.value))
            case ast.IfExp():
                known = self._truth(node.test)
                branches = (node.body, node.orelse) if known is None else (node.body if known.holds else node.orelse,)
                return frozenset().union(*map(self._meanings, branches))
            case ast.BoolOp():
                return frozenset().union(*map(self._meanings, node.values))
            case ast.NamedExpr():
                return self._meanings(node.value)
            case ast.Call() if imported := _imported_by(node):
                return frozenset([imported])
        return _OTHER

    def _aliases(self, node: ast.expr) -> list[str]:
        return sorted(path for path in self._meanings(node) if path)

    def _truth(self, test: ast.expr) -> Truth | None:
        return truth(test, self._meanings, self.has)

    def _note(self, path: str, node: Any, given: str = "", arguments: tuple[Argument, ...] = ()) -> None:
        guard = self.guards.of(isinstance(node, ast.alias | ast.Call))
        self.uses.append(Use(path, node.lineno, node.col_offset + 1, given, guard, arguments))

    # -------------------------------------------------------------------------------------------------------- imports

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            root = alias.name.partition(".")[0]
            is_jax = root in ROOTS
            if is_jax:
                self._note(alias.name, alias)
            bound = alias.name if alias.asname else root
            self.scope.bind(alias.asname or root, frozenset([bound]) if is_jax else _OTHER)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        if node.module == "__future__" and any(alias.name == "annotations" for alias in node.names):
            self.evaluates_annotations = False
        is_jax = node.level == 0 and (node.module or "").partition(".")[0] in ROOTS
        for alias in node.names:
            path = f"{node.module}.{alias.name}"
            if is_jax:
                self._note(path, alias)
            if alias.name != "*":
                self.scope.bind(alias.asname or alias.name, frozenset([path]) if is_jax else _OTHER)

    # ---------------------------------------------------------------------------------------------------- expressions

    def visit_Name(self, node: ast.Name) -> None:
        if isinstance(node.ctx, ast.Load):
            for path in self._aliases(node):
                self._note(path, node, given=path)
        elif isinstance(node.ctx, ast.Store):
            self.scope.bind(node.id, _OTHER)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        self._used(node, ())

    def _used(self, node: ast.expr, arguments: tuple[Argument, ...]) -> None:
        """Note the use of an expression, which is called with the arguments."""
        if not isinstance(node, ast.Attribute):
            for path in self._aliases(node) if isinstance(node, ast.Name) else ():
                self._note(path, node, given=path, arguments=arguments)
            if not isinstance(node, ast.Name):
                self.visit(node)
            return
        # What is written to need not be there, what it is an attribute of must be.
        aliases = self._aliases(node) if isinstance(node.ctx, ast.Load) else []
        if not aliases:
            if arguments:
                self._note(f".{node.attr}", node, arguments=arguments)
            self.visit(node.value)
            return
        base, attributes = _chain(node)
        for path in aliases:
            given = path.removesuffix(attributes) if isinstance(base, ast.Name) else ""
            self._note(path, node, given=given, arguments=arguments)
        if not isinstance(base, ast.Name):
            self.visit(base)

    def visit_Call(self, node: ast.Call) -> None:
        if imported := _imported_by(node):
            with self.guards.catching({"ImportError"} if _name_of(node.func) == "importorskip" else set()):
                self._note(imported, node)
        named = _arguments(node.keywords)
        positional = list(node.args)
        if positional and _name_of(node.func) == "partial" and self._aliases(positional[0]):
            self._used(positional.pop(0), named)
            named = ()
        elif "jax.config.update" in self._aliases(node.func) and len(positional) == 2:
            option, value = positional
            if isinstance(option, ast.Constant) and isinstance(option.value, str):
                named = (Argument(option.value, _literal(value)),)
        self._used(node.func, named)
        self._each([*positional, *(keyword.value for keyword in node.keywords)])

    def visit_NamedExpr(self, node: ast.NamedExpr) -> None:
        self.visit(node.value)
        self.scope.bind(node.target.id, self._meanings(node.value))

    def visit_Lambda(self, node: ast.Lambda) -> None:
        self._defaults(node.args)
        self._enter_later(node.args, [node.body])

    def _comprehension(self, node: Any) -> None:
        outer, self.scope = self.scope, _Scope(self.scope)
        for generator in node.generators:
            self._each([generator.iter, generator.target, *generator.ifs])
        self._each([node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt])
        self.scope = outer

    visit_ListComp = visit_SetComp = visit_GeneratorExp = visit_DictComp = _comprehension

    # ------------------------------------------------------------------------------------------- assignments and scopes

    def visit_Assign(self, node: ast.Assign) -> None:
        self.visit(node.value)
        for target in node.targets:
            self._assign(target, node.value)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        self._annotation(node.annotation, is_local=self.scope.parent is not None and not self.scope.is_class)
        if node.value is not None:
            self.visit(node.value)
            self._assign(node.target, node.value)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        self._each([node.value, node.target])

    def _assign(self, target: ast.expr, value: ast.expr) -> None:
        if isinstance(target, ast.Name):
            self.scope.bind(target.id, self._meanings(value))
        elif (
            isinstance(target, ast.Tuple | ast.List)
            and isinstance(value, ast.Tuple | ast.List)
            and len(target.elts) == len(value.elts)
        ):
            for part, meaning in zip(target.elts, value.elts, strict=True):
                self._assign(part, meaning)
        else:
            self.visit(target)

    def visit_Global(self, node: ast.Global) -> None:
        self.scope.elsewhere.update(dict.fromkeys(node.names, self.scope.outermost()))

    def visit_Nonlocal(self, node: ast.Nonlocal) -> None:
        for name in node.names:
            owner = self.scope.parent
            while owner is not None and name not in owner.bindings:
                owner = owner.parent
            if owner is not None:
                self.scope.elsewhere[name] = owner

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self._each([*node.decorator_list, *node.bases, *(keyword.value for keyword in node.keywords)])
        self.scope.bind(node.name, _OTHER)
        outer, self.scope = self.scope, _Scope(self.scope, is_class=True)
        self._each(node.body)
        self.scope = outer

    def _function(self, node: Any) -> None:
        self._each(node.decorator_list)
        self._defaults(node.args)
        arguments = [*_all_arguments(node.args)]
        for annotation in [*(argument.annotation for argument in arguments), node.returns]:
            if annotation is not None:
                self._annotation(annotation)
        self.scope.bind(node.name, _OTHER)
        self._enter_later(node.args, node.body)

    visit_FunctionDef = visit_AsyncFunctionDef = _function

    def _defaults(self, arguments: ast.arguments) -> None:
        self._each([*arguments.defaults, *arguments.kw_defaults])

    def _annotation(self, node: ast.expr, is_local: bool = False) -> None:
        with self.guards.within("" if self.evaluates_annotations and not is_local else "typing"):
            self.visit(node)

    def _enter_later(self, arguments: ast.arguments, body: Sequence[ast.AST]) -> None:
        """Look into a function after what is around it; an error that it raises is not caught by what is around it now."""
        scope = _Scope(self.scope)
        scope.bindings = {argument.arg: _OTHER for argument in _all_arguments(arguments)}
        guards = self.guards.of_function()

        def enter() -> None:
            self.scope, self.guards = scope, guards
            self._each(body)

        self.later.append(enter)

    # ------------------------------------------------------------------------------------------------ flow of control

    def _side_by_side(self, branches: Iterable[Callable[[], None]]) -> None:
        """Follow branches of which one is taken: a name may then mean what it means after any."""
        before, merged = self.scope.bindings, Bindings()
        for branch in branches:
            self.scope.bindings = dict(before)
            branch()
            for name, meanings in self.scope.bindings.items():
                merged[name] = merged.get(name, frozenset()) | meanings
        self.scope.bindings = merged

    def visit_If(self, node: ast.If) -> None:
        self.visit(node.test)
        known = self._truth(node.test)

        def follow(branch: Sequence[ast.AST], taken_if: bool) -> None:
            skipped = known is not None and known.holds != taken_if
            with self.guards.within(known.about if known and skipped else ""):
                before = self.scope.bindings
                self.scope.bindings = dict(before)
                self._each(branch)
                if skipped and known and known.about != "typing":
                    self.scope.bindings = before

        branches = [lambda: follow(node.body, True), lambda: follow(node.orelse, False)]
        if known is None or known.about == "typing":
            self._side_by_side(branches)
        else:
            for branch in branches:
                branch()

    def visit_IfExp(self, node: ast.IfExp) -> None:
        self.visit(node.test)
        known = self._truth(node.test)
        for branch, taken_if in ((node.body, True), (node.orelse, False)):
            with self.guards.within(known.about if known and known.holds != taken_if else ""):
                self.visit(branch)

    def _loop(self, node: Any) -> None:
        self._each([node.test] if isinstance(node, ast.While) else [node.iter, node.target])
        self._side_by_side([lambda: self._each(node.body), lambda: None])
        self._each(node.orelse)

    visit_For = visit_AsyncFor = visit_While = _loop

    def _with(self, node: Any) -> None:
        caught: set[str] = set()
        for item in node.items:
            self._each([item.context_expr, item.optional_vars])
            if isinstance(call := item.context_expr, ast.Call) and _name_of(call.func) == "suppress":
                caught.update(map(_name_of, call.args))
        with self.guards.catching(caught):
            self._each(node.body)

    visit_With = visit_AsyncWith = _with

    def _try(self, node: Any) -> None:
        def tried() -> None:
            with self.guards.catching({name for handler in node.handlers for name in _caught(handler)}):
                self._each(node.body)
            self._each(node.orelse)

        def handled(handler: ast.ExceptHandler) -> None:
            if handler.name:
                self.scope.bind(handler.name, _OTHER)
            self._each([handler.type, *handler.body])

        self._side_by_side([tried, *(lambda h=h: handled(h) for h in node.handlers)])
        self._each(node.finalbody)

    visit_Try = visit_TryStar = _try

    def visit_Match(self, node: ast.Match) -> None:
        self.visit(node.subject)
        cases = [lambda c=c: self._each([c.pattern, c.guard, *c.body]) for c in node.cases]
        self._side_by_side([*cases, lambda: None])

    def _captured(self, node: Any) -> None:
        name = node.rest if isinstance(node, ast.MatchMapping) else node.name
        if name:
            self.scope.bind(name, _OTHER)
        self.generic_visit(node)

    visit_MatchAs = visit_MatchStar = visit_MatchMapping = _captured


def _all_arguments(arguments: ast.arguments) -> list[ast.arg]:
    several = [arguments.vararg, arguments.kwarg]
    return [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, *(a for a in several if a is not None)]


def _chain(node: ast.expr) -> tuple[ast.expr, str]:
    """Return what a chain of attributes begins with, and the attributes: `f()` and `.a.b` of `f().a.b`."""
    attributes = ""
    while isinstance(node, ast.Attribute):
        node, attributes = node.value, f".{node.attr}{attributes}"
    return node, attributes


def _name_of(node: ast.expr | None) -> str:
    """Return the last part of a dotted name, or nothing."""
    match node:
        case ast.Name():
            return node.id
        case ast.Attribute():
            return node.attr
    return ""


def _caught(handler: ast.ExceptHandler) -> list[str]:
    if handler.type is None:
        return ["BaseException"]
    types = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    return [_name_of(kind) for kind in types]


def _imported_by(node: ast.Call) -> str:
    """Return the module of JAX that a call imports by its literal name, or nothing."""
    if _name_of(node.func) in ("import_module", "importorskip") and node.args:
        name = _literal(node.args[0])
        if isinstance(name, str) and name.partition(".")[0] in ROOTS:
            return name
    return ""


def _arguments(keywords: Sequence[ast.keyword]) -> tuple[Argument, ...]:
    named = [(k.arg, k.value) for k in keywords if k.arg is not None]
    return tuple(Argument(k, HANDED_ON if isinstance(v, ast.Name) and v.id == k else _literal(v)) for k, v in named)


def _literal(node: ast.expr) -> Any:
    try:
        found = ast.literal_eval(node)
        hash(found)  # uses are kept in a set
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return UNKNOWN
    return found
