// A client and an origin on Node.js' http2, for scripts/peers.sh. peers.py has the list of cases and of paths.
//
//   node peer.mjs origin 127.0.0.1:PORT
//   node peer.mjs client URL ORIGIN-URL MASTER-PID
import { createHash } from 'node:crypto'
import http2 from 'node:http2'
import net from 'node:net'

const large = Buffer.alloc(10 << 20)
for (let i = 0; i < large.length; i++) large[i] = Math.trunc(i * 7 / 5)
const digest = body => createHash('sha256').update(body).digest('hex')
const [mode, ...rest] = process.argv.slice(2)
if (mode === 'origin') origin(...rest)
else await client(...rest)

function origin (address) {
  const left = new Map()
  const held = new Map()
  const hold = key => {
    if (!held.has(key)) {
      let release
      const released = new Promise(resolve => { release = resolve })
      held.set(key, { released, release })
    }
    return held.get(key)
  }
  const content = (stream, headers, body) => {
    const fields = { etag: '"v1"', 'content-length': body.length, 'accept-ranges': 'bytes' }
    if (headers['if-none-match'] === '"v1"') return stream.respond({ ':status': 304, etag: '"v1"' }, { endStream: true })
    const range = /^bytes=(\d+)-(\d+)$/.exec(headers.range ?? '')
    if (range) {
      const piece = body.subarray(Number(range[1]), Number(range[2]) + 1)
      stream.respond({ ...fields, ':status': 206, 'content-length': piece.length,
        'content-range': `bytes ${range[1]}-${range[2]}/${body.length}` })
      return stream.end(piece)
    }
    stream.respond({ ...fields, ':status': 200 }, { endStream: headers[':method'] === 'HEAD' })
    if (headers[':method'] !== 'HEAD') stream.end(body)
  }
  const pages = {
    '/small': (stream, headers) => content(stream, headers, Buffer.from('small\n')),
    '/large': (stream, headers) => content(stream, headers, large),
    '/echo': stream => { stream.respond(); stream.pipe(stream) },
    '/digest': stream => {
      const hash = createHash('sha256')
      stream.on('data', piece => hash.update(piece))
      stream.on('end', () => { stream.respond(); stream.end(hash.digest('hex')) })
    },
    '/trailers': stream => {
      stream.respond({ ':status': 200 }, { waitForTrailers: true })
      stream.on('wantTrailers', () => stream.sendTrailers({ 'x-sum': '42' }))
      stream.end('body')
    },
    '/hints': stream => {
      stream.additionalHeaders({ ':status': 103, link: '</style.css>; rel=preload' })
      stream.respond()
      stream.end('hinted')
    },
    '/fields': (stream, headers) => {
      stream.respond({ 'set-cookie': Array.from({ length: 40 }, (_, i) => `c${i}=${'v'.repeat(200)}`) })
      stream.end(headers.cookie)
    },
    '/endless': (stream, _headers, key) => {
      stream.respond()
      const piece = Buffer.alloc(1000)
      const write = () => { while (!stream.destroyed && stream.write(piece)); }
      stream.on('drain', write)
      stream.on('close', () => left.set(key, (left.get(key) ?? 0) + 1))
      write()
    },
    '/cancelled': (stream, _headers, key) => { stream.respond(); stream.end(String(left.get(key) ?? 0)) },
    '/hold': async (stream, _headers, key) => {
      stream.respond()
      stream.write('first')
      await hold(key).released
      stream.end('last')
    },
    '/release': (stream, _headers, key) => { hold(key).release(); stream.respond(); stream.end() },
    '/goaway': stream => {
      stream.respond()
      stream.session.close()
      stream.end('bye')
    }
  }
  const server = http2.createServer({ maxSendHeaderBlockLength: 65536, settings: { maxHeaderListSize: 65536 } })
  server.on('stream', (stream, headers) => {
    stream.on('error', () => {})
    const [path, key] = headers[':path'].split('?')
    pages[path](stream, headers, key)
  })
  const [host, port] = address.split(':')
  server.listen(Number(port), host)
}

async function client (url, originUrl, master) {
  const connect = to => new Promise((resolve, reject) => {
    // The body of a large request counts against the memory, 10 MB by default.
    const session = http2.connect(to, {
      rejectUnauthorized: false, maxSendHeaderBlockLength: 65536, maxSessionMemory: 100
    })
    session.once('connect', () => resolve(session))
    session.once('error', reject)
  })
  let session = await connect(url)
  session.on('error', () => {})
  const call = (fields, body, on = session, trailers) => new Promise((resolve, reject) => {
    const stream = on.request({ ':method': 'GET', ...fields }, { endStream: body === undefined, waitForTrailers: !!trailers })
    const result = { status: 0, interim: [], headers: {}, trailers: {}, pieces: [], stream }
    stream.on('headers', headers => result.interim.push(`${headers[':status']} ${headers.link}`))
    stream.on('response', headers => { result.headers = headers; result.status = headers[':status'] })
    stream.on('trailers', headers => { result.trailers = headers })
    stream.on('wantTrailers', () => stream.sendTrailers(trailers))
    stream.on('data', piece => result.pieces.push(piece))
    stream.on('end', () => { result.body = Buffer.concat(result.pieces) })
    stream.on('error', reject)
    stream.on('close', () => result.body === undefined
      ? reject(new Error(`closed with code ${stream.rstCode}`)) : resolve(result))
    stream.setTimeout(60000, () => reject(new Error(`no end: ${fields[':path']}`)))
    if (body !== undefined) stream.end(body)
  })
  const check = (condition, what) => { if (!condition) throw new Error(what) }
  const same = (got, status, body) => check(got.status === status && got.body.equals(Buffer.from(body)),
    `${got.status} with ${got.body.length} bytes: ${got.body.subarray(0, 60)}`)
  const run = async (name, test) => {
    try {
      await test()
      console.log(`${name}\tpass\t`)
    } catch (error) {
      console.log(`${name}\tfail\t${String(error).replace(/\s+/g, ' ')}`)
    }
  }
  const post = (path, body, more = {}) => call({ ':method': 'POST', ':path': path, ...more }, body)

  await run('get', async () => same(await call({ ':path': '/small' }), 200, 'small\n'))
  await run('get-large', async () => same(await call({ ':path': '/large' }), 200, large))
  await run('post-large', async () =>
    same(await post('/digest', large, { 'content-length': large.length }), 200, digest(large)))
  await run('post-unsized', async () => same(await post('/digest', large), 200, digest(large)))
  await run('echo-large', async () => same(await post('/echo', large), 200, large))
  await run('range', async () =>
    same(await call({ ':path': '/large', range: 'bytes=1000-1999' }), 206, large.subarray(1000, 2000)))
  await run('not-modified', async () => same(await call({ ':path': '/small', 'if-none-match': '"v1"' }), 304, ''))
  await run('head', async () => {
    const got = await call({ ':method': 'HEAD', ':path': '/large' })
    same(got, 200, '')
    check(got.headers['content-length'] === String(large.length), `length ${got.headers['content-length']}`)
  })
  await run('trailers', async () => {
    const got = await call({ ':path': '/trailers' })
    same(got, 200, 'body')
    check(got.trailers['x-sum'] === '42', JSON.stringify(got.trailers))
  })
  await run('request-trailers', async () => {
    const got = await call({ ':method': 'POST', ':path': '/echo' }, 'abc', session, { 'x-sum': '42' })
    same(got, 200, 'abc')
  })
  await run('hints', async () => {
    const got = await call({ ':path': '/hints' })
    same(got, 200, 'hinted')
    check(got.interim.join() === '103 </style.css>; rel=preload', got.interim.join())
  })
  await run('fields', async () => {
    // Node.js sends each cookie as a field of its own.
    const cookie = Array.from({ length: 60 }, (_, i) => `c${i}=${'x'.repeat(100)}`)
    const got = await call({ ':path': '/fields', cookie })
    same(got, 200, cookie.join('; '))
    check(got.headers['set-cookie'].length === 40, `${got.headers['set-cookie'].length} cookies`)
  })
  await run('streams', async () => {
    const all = await Promise.all(Array.from({ length: 300 }, () => call({ ':path': '/small' })))
    for (const got of all) same(got, 200, 'small\n')
  })
  await run('cancel', async () => {
    const key = `node${process.pid}`
    for (let i = 0; i < 10; i++) {
      const stream = session.request({ ':path': `/endless?${key}` })
      stream.on('error', () => {})
      await new Promise(resolve => stream.once('data', resolve))
      stream.close(http2.constants.NGHTTP2_CANCEL)
      await new Promise(resolve => stream.once('close', resolve))
    }
    const end = Date.now() + 20000
    for (;;) {
      const got = await call({ ':path': `/cancelled?${key}` })
      if (got.body.toString() === '10') break
      check(Date.now() < end, `the origin saw ${got.body} leave`)
    }
  })
  await run('goaway', async () => {
    for (let i = 0; i < 5; i++) same(await call({ ':path': '/goaway' }), 200, 'bye')
    same(await call({ ':path': '/small' }), 200, 'small\n')
  })
  const release = key => new Promise((resolve, reject) => {
    const direct = http2.connect(originUrl)
    direct.on('error', reject)
    const stream = direct.request({ ':path': `/release?${key}` })
    stream.on('close', () => { direct.close(); resolve() })
    stream.resume()
  })
  const held = async (name, meanwhile) => {
    const key = `${name}${process.pid}`
    const whole = call({ ':path': `/hold?${key}` })
    const early = whole.catch(error => error)
    await meanwhile()
    await release(key)
    const got = await early
    if (got instanceof Error) throw got
    same(got, 200, 'firstlast')
  }
  let wentAway = false
  session.on('goaway', () => { wentAway = true })
  await run('reload', () => held('reload', async () => {
    for (let i = 0; i < 3; i++) {
      process.kill(Number(master), 'SIGHUP')
      for (let j = 0; j < 20; j++) same(await call({ ':path': '/small' }), 200, 'small\n')
    }
    check(!wentAway, 'GOAWAY by a reload')
  }))
  await run('quit', () => held('quit', async () => {
    const gone = new Promise(resolve => session.once('goaway', resolve))
    // The response has begun.
    same(await call({ ':path': '/small' }), 200, 'small\n')
    process.kill(Number(master), 'SIGQUIT')
    await gone
    const { hostname, port } = new URL(url)
    const refused = () => new Promise(resolve => {
      const socket = net.connect(Number(port), hostname)
      socket.once('connect', () => { socket.destroy(); resolve(false) })
      socket.once('error', () => resolve(true))
    })
    const end = Date.now() + 20000
    while (!await refused()) check(Date.now() < end, 'still listens')
  }))
  session.close()
}
