# SPDX-License-Identifier: Apache-2.0
# Commands in the place of Environment Modules': prints what a module file would do to which variable.
#
# usage: tclsh modules.tcl FILE
proc module-whatis {text} {}
proc conflict {name} {}
proc prepend-path {variable value} { puts "prepend $variable $value" }
proc append-path {variable value} { puts "append $variable $value" }
set file [open [lindex $argv 0]]
if {[gets $file] ne "#%Module1.0"} { error "the first line is not that of a module file" }
close $file
source [lindex $argv 0]
