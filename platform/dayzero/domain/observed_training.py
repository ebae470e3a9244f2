"""What a few training steps and the backward of every layer did, three ways. Figures that are not finite are None."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class DirectionError:
    """How far a vector of n elements lies from its reference: ‖error‖ / ‖reference‖, cosine, ‖vector‖ / ‖reference‖.

    `nonfinite` counts elements that are NaN or infinite where the reference's are finite. Two zero vectors agree (0, 1, 1).
    """

    n: int
    relative: float | None
    cosine: float | None
    norm_ratio: float | None
    nonfinite: int = 0


@dataclass(frozen=True, slots=True)
class GradientError:
    """The gradient of one module's trained parameters ("" is the whole model's) against the higher precision's."""

    module: str
    target: DirectionError
    native: DirectionError


@dataclass(frozen=True, slots=True)
class BackwardError:
    """One gradient that a module hands on, given the reference's input and the gradient of the reference's output.

    `gradient` is "input" or a parameter's name; of a whole layer the input's is without what the residual stream passes
    through. `depth` is 0 for a layer and counts modules below it.
    """

    layer_index: int
    module: str
    gradient: str
    target: DirectionError
    native: DirectionError
    depth: int = 0


@dataclass(frozen=True, slots=True)
class Scaling:
    """Dynamic loss scaling of one way: the scale at the start and at the end, and attempts of steps that overflowed."""

    start: float
    end: float
    overflows: int
    gave_up: bool = False


@dataclass(frozen=True, slots=True)
class TrainingRun:
    """One method (full or lora), three ways, each on its own trajectory from the same parameters.

    `losses_*` hold a loss before each step and one after the last. `gradients` are those of the first step; `gradients_after`
    those at the reference's parameters after the last, given to all three. `moved_*` is ‖change‖ / ‖parameters‖; `still` names
    parameters that moved in the reference and not on the target, `without_gradient` those that got none there.
    """

    method: str
    trained_parameters: int
    steps: int
    learning_rate: float
    losses_reference: tuple[float | None, ...]
    losses_native: tuple[float | None, ...]
    losses_target: tuple[float | None, ...]
    gradients: tuple[GradientError, ...]
    gradients_after: tuple[GradientError, ...]
    moved_reference: float | None
    moved_native: float | None
    moved_target: float | None
    identical: bool
    still: tuple[str, ...] = ()
    without_gradient: tuple[str, ...] = ()
    scaling_native: Scaling | None = None
    scaling_target: Scaling | None = None
    choices_forced: int = 0
    choices_differing: int = 0


@dataclass(frozen=True, slots=True)
class TrainingObserved:
    """Short fine-tunes on packaged text and each layer's backward. `backward` has the layers, `suspects` modules inside those
    that stood out; routing is the reference's in all three ways, for `choices_forced` decisions of the runs."""

    native_dtype: str
    reference_dtype: str
    target_path: str
    reference_path: str
    tokens: int
    token_source: str
    optimizer: str
    backward: tuple[BackwardError, ...]
    suspects: tuple[BackwardError, ...]
    runs: tuple[TrainingRun, ...]
    custom_operators: tuple[str, ...] = ()
    observed_s: float = 0.0
