"""The Jinja templates of the kernels; data only, read by ``warpconv.codegen.render``."""
