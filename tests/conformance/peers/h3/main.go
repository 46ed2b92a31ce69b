// A client on quic-go, for scripts/h3-clients.sh. h3-clients.py has the list of cases and the format of transcripts.
//
//	h3 PORT CASE
package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"
)

// Bytes of an upload.
const uploadBytes = 5 << 20

// Time for a case.
const patience = 60 * time.Second

func upload() []byte {
	body := make([]byte, uploadBytes)
	for i := range body {
		body[i] = byte(i * 7 / 5)
	}
	return body
}

// A client with the sockets and sessions of a case.
type client struct {
	url, mark string
	transport *http3.Transport
	packets   *quic.Transport
	// The last connection.
	connection *quic.Conn
	sessions   tls.ClientSessionCache
	mutex      sync.Mutex
}

func newClient(port, name string, sessions tls.ClientSessionCache) *client {
	c := &client{url: "https://127.0.0.1:" + port, mark: "?quic-go-" + name, sessions: sessions}
	c.packets = &quic.Transport{Conn: socket()}
	c.transport = &http3.Transport{
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true, ClientSessionCache: sessions, ServerName: "localhost"},
		Dial: func(ctx context.Context, address string, t *tls.Config, q *quic.Config) (*quic.Conn, error) {
			to, err := net.ResolveUDPAddr("udp", address)
			if err != nil {
				return nil, err
			}
			connection, err := c.packets.DialEarly(ctx, to, t, q)
			c.connection = connection
			return connection, err
		},
	}
	return c
}

func socket() *net.UDPConn {
	connection, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	check(err)
	return connection
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// Sends a request, and prints the response.
func (c *client) request(method, path string, body io.Reader, fields ...string) *http.Response {
	request, err := http.NewRequest(method, c.url+path+c.mark, body)
	check(err)
	for i := 0; i < len(fields); i += 2 {
		request.Header.Set(fields[i], fields[i+1])
	}
	response, err := c.transport.RoundTrip(request)
	check(err)
	c.report(method, path, response)
	return response
}

// Reads a response to its end, and prints it.
func (c *client) report(method, path string, response *http.Response) {
	sum := sha256.New()
	length, err := io.Copy(sum, response.Body)
	check(err)
	check(response.Body.Close())
	name := map[string]string{http3.MethodGet0RTT: "GET"}[method]
	if name == "" {
		name = method
	}
	c.mutex.Lock()
	defer c.mutex.Unlock()
	fmt.Printf("%s %s %d %d %x\n", name, path, response.StatusCode, length, sum.Sum(nil)[:8])
}

// Begins a large download; returns its response after the first bytes.
func (c *client) begin(path string) (*http.Response, context.CancelFunc) {
	ctx, cancel := context.WithCancel(context.Background())
	request, err := http.NewRequestWithContext(ctx, "GET", c.url+path+c.mark, nil)
	check(err)
	response, err := c.transport.RoundTrip(request)
	check(err)
	return response, cancel
}

func parallel(count int, work func()) {
	var group sync.WaitGroup
	for range count {
		group.Go(work)
	}
	group.Wait()
}

// Moves the connection to another socket (RFC 9000 section 9).
func (c *client) migrate() {
	path, err := c.connection.AddPath(&quic.Transport{Conn: socket()})
	check(err)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	check(path.Probe(ctx))
	check(path.Switch())
}

// Waits for a ticket of the session.
type tickets struct {
	tls.ClientSessionCache
	stored chan struct{}
}

func (t tickets) Put(key string, state *tls.ClientSessionState) {
	t.ClientSessionCache.Put(key, state)
	select {
	case t.stored <- struct{}{}:
	default:
	}
}

func resume(port, name, method string) {
	sessions := tickets{tls.NewLRUClientSessionCache(10), make(chan struct{}, 1)}
	first := newClient(port, name, sessions)
	first.request("GET", "/small", nil)
	<-sessions.stored
	check(first.transport.Close())
	second := newClient(port, name, sessions)
	second.request(method, "/small", nil)
	<-second.connection.HandshakeComplete()
	state := second.connection.ConnectionState()
	fmt.Println("resumed", state.TLS.DidResume)
	if method == http3.MethodGet0RTT {
		fmt.Println("early data", state.Used0RTT)
	}
	check(second.transport.Close())
}

var cases = map[string]func(c *client){
	"get":       func(c *client) { c.request("GET", "/small", nil) },
	"get-large": func(c *client) { c.request("GET", "/large", nil) },
	"head": func(c *client) {
		fmt.Println("content-length", c.request("HEAD", "/large", nil).ContentLength)
	},
	"range":   func(c *client) { c.request("GET", "/large", nil, "Range", "bytes=1000-1999") },
	"missing": func(c *client) { c.request("GET", "/none", nil) },
	"upload":  func(c *client) { c.request("POST", "/digest", bytes.NewReader(upload())) },
	// Without a length.
	"upload-unsized": func(c *client) { c.request("POST", "/digest", io.MultiReader(bytes.NewReader(upload()))) },
	"echo":           func(c *client) { c.request("POST", "/echo", bytes.NewReader(upload())) },
	"fields": func(c *client) {
		cookies := make([]string, 60)
		for i := range cookies {
			cookies[i] = fmt.Sprintf("c%d=%s", i, strings.Repeat("x", 100))
		}
		for range 2 {
			c.request("GET", "/small", nil, "Cookie", strings.Join(cookies, "; "))
		}
	},
	"streams": func(c *client) { parallel(300, func() { c.request("GET", "/small", nil) }) },
	"mixed": func(c *client) {
		var group sync.WaitGroup
		group.Go(func() { parallel(3, func() { c.request("GET", "/large", nil) }) })
		group.Go(func() { parallel(3, func() { c.request("POST", "/digest", bytes.NewReader(upload())) }) })
		group.Wait()
	},
	"cancel": func(c *client) {
		for range 20 {
			response, cancel := c.begin("/large")
			_, err := io.ReadFull(response.Body, make([]byte, 1000))
			check(err)
			cancel()
			response.Body.Close()
		}
		c.request("GET", "/small", nil)
	},
	"migration": func(c *client) {
		response, cancel := c.begin("/large")
		defer cancel()
		first := make([]byte, 1000)
		_, err := io.ReadFull(response.Body, first)
		check(err)
		c.migrate()
		body := response.Body
		response.Body = struct {
			io.Reader
			io.Closer
		}{io.MultiReader(bytes.NewReader(first), body), body}
		c.report("GET", "/large", response)
		c.request("GET", "/small", nil)
	},
}

func main() {
	if os.Args[1] == "cases" {
		for name := range cases {
			fmt.Println(name)
		}
		fmt.Println("resumption early-data")
		return
	}
	port, name := os.Args[1], os.Args[2]
	time.AfterFunc(patience, func() { check(fmt.Errorf("no end within %v", patience)) })
	switch name {
	case "resumption":
		resume(port, name, "GET")
	case "early-data":
		resume(port, name, http3.MethodGet0RTT)
	default:
		c := newClient(port, name, nil)
		cases[name](c)
		check(c.transport.Close())
	}
}
