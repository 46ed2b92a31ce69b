// A client and an origin on Go's net/http, for scripts/peers.sh. peers.py has the list of cases and of paths.
//
//	go run peer.go origin 127.0.0.1:PORT
//	go run peer.go client URL ORIGIN-URL MASTER-PID
package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

const largeBytes = 10 << 20

func pattern() []byte {
	body := make([]byte, largeBytes)
	for i := range body {
		body[i] = byte(i * 7 / 5)
	}
	return body
}

func main() {
	if os.Args[1] == "origin" {
		origin(os.Args[2])
	} else {
		client(os.Args[2], os.Args[3], os.Args[4])
	}
}

func origin(address string) {
	large := pattern()
	// By the query: responses that the client has left.
	var cancelled sync.Map
	leaves := func(r *http.Request) *atomic.Int64 {
		count, _ := cancelled.LoadOrStore(r.URL.RawQuery, new(atomic.Int64))
		return count.(*atomic.Int64)
	}
	var held sync.Map
	mux := http.NewServeMux()
	mux.HandleFunc("/small", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("ETag", `"v1"`)
		http.ServeContent(w, r, "small.txt", time.Time{}, strings.NewReader("small\n"))
	})
	mux.HandleFunc("/large", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("ETag", `"v1"`)
		http.ServeContent(w, r, "large.bin", time.Time{}, bytes.NewReader(large))
	})
	mux.HandleFunc("/echo", func(w http.ResponseWriter, r *http.Request) {
		http.NewResponseController(w).EnableFullDuplex()
		io.Copy(w, r.Body)
	})
	mux.HandleFunc("/digest", func(w http.ResponseWriter, r *http.Request) {
		sum := sha256.New()
		io.Copy(sum, r.Body)
		fmt.Fprintf(w, "%x", sum.Sum(nil))
	})
	mux.HandleFunc("/trailers", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Trailer", "X-Sum")
		io.WriteString(w, "body")
		w.(http.Flusher).Flush()
		w.Header().Set("X-Sum", "42")
	})
	mux.HandleFunc("/hints", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Link", "</style.css>; rel=preload")
		w.WriteHeader(http.StatusEarlyHints)
		io.WriteString(w, "hinted")
	})
	mux.HandleFunc("/fields", func(w http.ResponseWriter, r *http.Request) {
		for i := range 40 {
			w.Header().Add("Set-Cookie", fmt.Sprintf("c%d=%s", i, strings.Repeat("v", 200)))
		}
		io.WriteString(w, strings.Join(r.Header["Cookie"], "|"))
	})
	mux.HandleFunc("/endless", func(w http.ResponseWriter, r *http.Request) {
		piece := make([]byte, 1000)
		for {
			if _, err := w.Write(piece); err != nil || r.Context().Err() != nil {
				leaves(r).Add(1)
				return
			}
		}
	})
	mux.HandleFunc("/cancelled", func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, leaves(r).Load()) })
	mux.HandleFunc("/hold", func(w http.ResponseWriter, r *http.Request) {
		released, _ := held.LoadOrStore(r.URL.RawQuery, make(chan struct{}))
		io.WriteString(w, "first")
		w.(http.Flusher).Flush()
		<-released.(chan struct{})
		io.WriteString(w, "last")
	})
	mux.HandleFunc("/release", func(w http.ResponseWriter, r *http.Request) {
		released, _ := held.LoadOrStore(r.URL.RawQuery, make(chan struct{}))
		close(released.(chan struct{}))
	})
	// In HTTP/2 this ends the connection with GOAWAY.
	mux.HandleFunc("/goaway", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Connection", "close")
		io.WriteString(w, "bye")
	})
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true)
	server := http.Server{Addr: address, Handler: mux, Protocols: protocols}
	fmt.Fprintln(os.Stderr, server.ListenAndServe())
	os.Exit(1)
}

func report(name string, err error) {
	if err != nil {
		fmt.Printf("%s\tfail\t%s\n", name, strings.ReplaceAll(err.Error(), "\n", " "))
	} else {
		fmt.Printf("%s\tpass\t\n", name)
	}
}

func client(url, originURL, master string) {
	protocols := new(http.Protocols)
	protocols.SetHTTP2(true)
	protocols.SetUnencryptedHTTP2(true)
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, Protocols: protocols,
		DisableCompression: true}
	c := &http.Client{Transport: transport, Timeout: 60 * time.Second}
	large := pattern()
	sum := fmt.Sprintf("%x", sha256.Sum256(large))

	type want struct {
		status int
		body   string
	}
	call := func(method, path string, body io.Reader, fields map[string]string, want want) (*http.Response, error) {
		request, _ := http.NewRequest(method, url+path, body)
		for name, value := range fields {
			request.Header.Set(name, value)
		}
		response, err := c.Do(request)
		if err != nil {
			return nil, err
		}
		defer response.Body.Close()
		got, err := io.ReadAll(response.Body)
		if err != nil {
			return response, err
		}
		if response.StatusCode != want.status || string(got) != want.body {
			return response, fmt.Errorf("%d with %d bytes: %.80q", response.StatusCode, len(got), got)
		}
		if response.ProtoMajor != 2 {
			return response, errors.New("not by HTTP/2")
		}
		return response, nil
	}
	simple := func(method, path string, body io.Reader, fields map[string]string, status int, text string) error {
		_, err := call(method, path, body, fields, want{status, text})
		return err
	}

	report("get", simple("GET", "/small", nil, nil, 200, "small\n"))
	report("get-large", simple("GET", "/large", nil, nil, 200, string(large)))
	report("post-large", simple("POST", "/digest", bytes.NewReader(large), nil, 200, sum))
	report("post-unsized", simple("POST", "/digest", io.MultiReader(bytes.NewReader(large)), nil, 200, sum))
	report("echo-large", simple("POST", "/echo", bytes.NewReader(large), nil, 200, string(large)))
	report("range", simple("GET", "/large", nil, map[string]string{"Range": "bytes=1000-1999"}, 206,
		string(large[1000:2000])))
	report("not-modified", simple("GET", "/small", nil, map[string]string{"If-None-Match": `"v1"`}, 304, ""))

	response, err := call("HEAD", "/large", nil, nil, want{200, ""})
	if err == nil && response.ContentLength != largeBytes {
		err = fmt.Errorf("length %d", response.ContentLength)
	}
	report("head", err)

	response, err = call("GET", "/trailers", nil, nil, want{200, "body"})
	if err == nil && response.Trailer.Get("X-Sum") != "42" {
		err = fmt.Errorf("trailers %v", response.Trailer)
	}
	report("trailers", err)

	request, _ := http.NewRequest("POST", url+"/echo", io.MultiReader(strings.NewReader("abc")))
	request.Trailer = http.Header{"X-Sum": {"42"}}
	response, err = c.Do(request)
	if err == nil {
		got, _ := io.ReadAll(response.Body)
		response.Body.Close()
		if string(got) != "abc" {
			err = fmt.Errorf("%d %q", response.StatusCode, got)
		}
	}
	report("request-trailers", err)

	var hints []string
	trace := &httptrace.ClientTrace{Got1xxResponse: func(code int, header textproto.MIMEHeader) error {
		hints = append(hints, fmt.Sprint(code, " ", header.Get("Link")))
		return nil
	}}
	request, _ = http.NewRequestWithContext(httptrace.WithClientTrace(context.Background(), trace), "GET",
		url+"/hints", nil)
	response, err = c.Do(request)
	if err == nil {
		got, _ := io.ReadAll(response.Body)
		response.Body.Close()
		if string(got) != "hinted" || fmt.Sprint(hints) != "[103 </style.css>; rel=preload]" {
			err = fmt.Errorf("%q after %v", got, hints)
		}
	}
	report("hints", err)

	cookies := make([]string, 60)
	for i := range cookies {
		cookies[i] = fmt.Sprintf("c%d=%s", i, strings.Repeat("x", 100))
	}
	joined := strings.Join(cookies, "; ")
	response, err = call("GET", "/fields", nil, map[string]string{"Cookie": joined}, want{200, joined})
	if err == nil && len(response.Header["Set-Cookie"]) != 40 {
		err = fmt.Errorf("%d cookies", len(response.Header["Set-Cookie"]))
	}
	report("fields", err)

	errs := make(chan error, 300)
	for range 300 {
		go func() { errs <- simple("GET", "/small", nil, nil, 200, "small\n") }()
	}
	err = nil
	for range 300 {
		err = errors.Join(err, <-errs)
	}
	report("streams", err)

	report("cancel", cancel(c, url, simple))
	report("goaway", func() error {
		for range 5 {
			if err := simple("GET", "/goaway", nil, nil, 200, "bye"); err != nil {
				return err
			}
		}
		return simple("GET", "/small", nil, nil, 200, "small\n")
	}())

	pid, _ := strconv.Atoi(master)
	report("reload", held(c, url, originURL, "reload", func() error {
		for range 3 {
			syscall.Kill(pid, syscall.SIGHUP)
			for range 20 {
				if err := simple("GET", "/small", nil, nil, 200, "small\n"); err != nil {
					return err
				}
			}
		}
		return nil
	}))
	report("quit", held(c, url, originURL, "quit", func() error {
		syscall.Kill(pid, syscall.SIGQUIT)
		fresh := &http.Client{Transport: &http.Transport{DisableKeepAlives: true,
			TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
		for end := time.Now().Add(20 * time.Second); time.Now().Before(end); {
			if _, err := fresh.Get(url + "/small"); errors.Is(err, syscall.ECONNREFUSED) {
				return nil
			}
		}
		return errors.New("still listens")
	}))
}

// cancel leaves ten responses; the origin has to see all of them leave, and the connection goes on.
func cancel(c *http.Client, url string, simple func(string, string, io.Reader, map[string]string, int, string) error) error {
	key := fmt.Sprint(time.Now().UnixNano())
	for range 10 {
		ctx, stop := context.WithCancel(context.Background())
		request, _ := http.NewRequestWithContext(ctx, "GET", url+"/endless?"+key, nil)
		response, err := c.Do(request)
		if err != nil {
			stop()
			return err
		}
		io.ReadFull(response.Body, make([]byte, 5000))
		stop()
		response.Body.Close()
	}
	var err error
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); {
		if err = simple("GET", "/cancelled?"+key, nil, nil, 200, "10"); err == nil {
			return nil
		}
	}
	return err
}

// held does something while a response is in the middle, which then has to end.
func held(c *http.Client, url, originURL, name string, meanwhile func() error) error {
	key := fmt.Sprint(name, time.Now().UnixNano())
	response, err := c.Get(url + "/hold?" + key)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if _, err := io.ReadFull(response.Body, make([]byte, 5)); err != nil {
		return err
	}
	if err := meanwhile(); err != nil {
		return err
	}
	if _, err := c.Get(originURL + "/release?" + key); err != nil {
		return err
	}
	rest, err := io.ReadAll(response.Body)
	if err == nil && string(rest) != "last" {
		err = fmt.Errorf("the rest is %q", rest)
	}
	return err
}
