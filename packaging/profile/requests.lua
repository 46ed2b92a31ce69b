-- Requests for wrk: the paths of the command line, one after the other. In a path, `#` stands for a number
-- that is never the same again.
local paths = {}
local sent = 0

function init(arguments)
    paths = arguments
    -- Each run of wrk, and each thread of it, begins with numbers of its own.
    sent = math.random(0, 1000) * 1000000
end

function request()
    sent = sent + 1
    local path = paths[sent % #paths + 1]
    return wrk.format(nil, (path:gsub("#", sent)))
end
