# SPDX-License-Identifier: Apache-2.0
"""A Spack recipe, not tried with Spack itself. Put this folder into a repository of recipes as
packages/utofu-verbs (Spack 1.0: packages/utofu_verbs), or name a checkout of the sources as the
one to build:

    spack develop --path CHECKOUT utofu-verbs@1.0.0
"""

try:
    from spack_repo.builtin.build_systems.meson import MesonPackage
except ImportError:  # before Spack 1.0 it is in spack.package
    pass

from spack.package import *


class UtofuVerbs(MesonPackage):
    """The uTofu interface of the Tofu interconnect (utofu.h, libtofucom) on InfiniBand and RoCE
    verbs, and between the processes of one machine: one-sided puts, gets and atomic operations,
    barriers and reductions."""

    homepage = "https://utofu-verbs.invalid"
    manual_download = True

    license("Apache-2.0", checked_by="utofu-verbs")

    # There is no archive to fetch yet: build from a checkout, see above.
    version("1.0.0")

    variant("man", default=True, description="Make and install the manual pages")
    variant("html", default=False, when="+man", description="The manual pages as HTML too")

    variant("libfabric", default=True, description="The provider ofi: Ethernet, Slingshot, EFA")
    variant("acp", default=True, description="The ACP basic layer")
    variant("lapi", default=True, description="LAPI")
    variant("jtofu", default=True, description="jtofu, and the rank map of PMIx")
    variant("prdma", default=False, description="MPI's persistent neighbourhood collectives")

    depends_on("c", type="build")
    depends_on("meson@1.0:", type="build")
    depends_on("ninja", type="build")
    depends_on("pkgconfig", type="build")
    depends_on("python@3.8:", type=("build", "run"))  # utofu-test is a script
    depends_on("py-docutils", type="build")  # the manual pages

    depends_on("rdma-core")
    depends_on("pmix@3:")
    depends_on("jansson@2.11:")
    depends_on("libfabric@1.11:", when="+libfabric")
    depends_on("mpi", when="+prdma")

    conflicts("platform=darwin", msg="it needs Linux: verbs, memfd, userfaultfd")
    conflicts("platform=windows", msg="it needs Linux: verbs, memfd, userfaultfd")

    def meson_args(self):
        spec = self.spec
        layers = [name for name in ("acp", "jtofu", "lapi", "prdma") if spec.satisfies("+" + name)]
        return [
            "-Dtests=disabled",
            "-Dlayers={0}".format(",".join(layers)),
            "-Dprobes=disabled",  # whether the host has their header must not matter
            "-Dpython=disabled",
            "-Dfortran=disabled",  # a compiled module is of one compiler: its source is installed
            "-Dman={0}".format("true" if spec.satisfies("+man") else "false"),
            "-Dofi={0}".format("enabled" if spec.satisfies("+libfabric") else "disabled"),
            "-Dhtml={0}".format("enabled" if spec.satisfies("+html") else "disabled"),
        ]

    def setup_build_environment(self, env):
        # link-time optimisation would make the weak utofu_* names strong ones
        env.append_flags("CFLAGS", "-fno-lto")

    @run_after("install")
    @on_package_attributes(run_tests=True)
    def check_install(self):
        """Two processes of this machine see each other with what was installed."""
        utofurun = Executable(join_path(self.prefix.bin, "utofurun"))
        utofurun("-n", "2", join_path(self.prefix.bin, "utofu-perf"), "--quiet", "-s", "8", "-n",
                 "100", "put-lat")
