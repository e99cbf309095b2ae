"""What ``import warpconv`` has, for type checkers and editors: the names that __init__.py imports when they are
used."""

from warpconv.codegen.version import VERSION as __version__  # noqa: F401 - the name is public
from warpconv.codegen.border import Border as Border
from warpconv.codegen.dtypes import Cast as Cast, DType as DType, Layout as Layout
from warpconv.codegen.epilogue import Epilogue as Epilogue
from warpconv.codegen.errors import (
    ArgumentError as ArgumentError, ArgumentTypeError as ArgumentTypeError, CompileError as CompileError,
    DeviceError as DeviceError, FileError as FileError, KernelFault as KernelFault,
    KernelNotBuilt as KernelNotBuilt, PackError as PackError, PlannerError as PlannerError,
    ShapeError as ShapeError, ToolNotFound as ToolNotFound, UnsupportedSpec as UnsupportedSpec,
    WarpconvError as WarpconvError)
from warpconv.codegen.hardware import Arch as Arch, Hardware as Hardware
from warpconv.codegen.numerics import Numerics as Numerics, Precision as Precision
from warpconv.codegen.plan import KernelPlan as KernelPlan
from warpconv.codegen.render import KernelSource as KernelSource, render as render
from warpconv.codegen.request import Request as Request
from warpconv.codegen.resolution import (
    Candidate as Candidate, Resolution as Resolution, Selection as Selection, Tuning as Tuning,
    plan as plan, resolve as resolve)
from warpconv.codegen.select import explain as explain, plan_layer as plan_layer, select as select
from warpconv.codegen.shape import ConvShape as ConvShape
from warpconv.codegen.spec import KernelSpec as KernelSpec, Operation as Operation
from warpconv.runtime.call.conv import conv2d as conv2d, specialize as specialize
from warpconv.runtime.call.gradients import (
    conv2d_bias as conv2d_bias, conv2d_input as conv2d_input, conv2d_weight as conv2d_weight)
from warpconv.runtime.call.kernel import Filter as Filter, Kernel as Kernel
from warpconv.runtime.call.line import (
    conv1d as conv1d, conv1d_input as conv1d_input, conv1d_weight as conv1d_weight,
    conv_transpose1d as conv_transpose1d)
from warpconv.runtime.call.many import specialize_all as specialize_all
from warpconv.runtime.call.transposed import conv_transpose2d as conv_transpose2d, conv_transpose3d as conv_transpose3d
from warpconv.runtime.call.volume import (
    conv3d as conv3d, conv3d_input as conv3d_input, conv3d_weight as conv3d_weight)
from warpconv.runtime.devices.cuda.graph import Graph as Graph, graph as graph
from warpconv.runtime.layers import NamedLayer as NamedLayer, read_layers as read_layers
from warpconv.runtime.models.model import Model as Model, ModelLayer as ModelLayer
from warpconv.runtime.models.source import read_model as read_model
from warpconv.runtime.models.torch import layers_of as layers_of
from warpconv.runtime.ndimage.correlate import (
    convolve as convolve, convolve1d as convolve1d, correlate as correlate, correlate1d as correlate1d)
from warpconv.runtime.ndimage.derivatives import (
    gaussian_gradient_magnitude as gaussian_gradient_magnitude, gaussian_laplace as gaussian_laplace,
    laplace as laplace, prewitt as prewitt, sobel as sobel)
from warpconv.runtime.ndimage.filters import (
    gaussian_filter as gaussian_filter, gaussian_filter1d as gaussian_filter1d, uniform_filter as uniform_filter,
    uniform_filter1d as uniform_filter1d)
from warpconv.runtime.ndimage.generic import (
    generic_gradient_magnitude as generic_gradient_magnitude, generic_laplace as generic_laplace)
from warpconv.runtime.pack.conv import PackConv as PackConv
from warpconv.runtime.pack.pack import Pack as Pack, build_pack as build_pack, open_pack as open_pack
from warpconv.runtime.tuning.choice import tuning_table as tuning_table
from warpconv.runtime.tuning.session import tune as tune
