-- SPDX-License-Identifier: Apache-2.0
-- Functions in the place of Lmod's: prints what a module file would do to which variable.
--
-- usage: lua modules.lua FILE
function help(text) end
function whatis(text) end
function conflict(name) end
function prepend_path(variable, value) print("prepend " .. variable .. " " .. value) end
function append_path(variable, value) print("append " .. variable .. " " .. value) end
dofile(arg[1])
