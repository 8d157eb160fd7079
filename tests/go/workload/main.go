// Workload is a small busy program that writes one of Go's own profiles of itself.
//
//	workload cpu|heap|allocs|mutex|block|goroutine OUT.pb.gz MILLISECONDS
//
// It has what a profile reader must get right: functions that are inlined, recursion, generics,
// closures, methods, labels set with pprof.Do, and allocations of several sizes from one line.
package main

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"runtime/pprof"
	"sort"
	"strconv"
	"strings"
	"sync"
	"time"
)

func main() {
	if len(os.Args) != 4 {
		fail("usage: workload cpu|heap|allocs|mutex|block|goroutine OUT MILLISECONDS")
	}
	kind, path := os.Args[1], os.Args[2]
	milliseconds, err := strconv.Atoi(os.Args[3])
	check(err)
	out, err := os.Create(path)
	check(err)
	if kind == "cpu" {
		check(pprof.StartCPUProfile(out))
		cpu(time.Duration(milliseconds) * time.Millisecond)
		pprof.StopCPUProfile()
	} else {
		runtime.SetMutexProfileFraction(1)
		runtime.SetBlockProfileRate(1)
		runtime.MemProfileRate = 4096
		switch kind {
		case "heap", "allocs":
			heap()
		case "mutex", "block":
			contention()
		case "goroutine":
			waiters()
		default:
			fail("unknown profile " + kind)
		}
		check(pprof.Lookup(kind).WriteTo(out, 0))
	}
	check(out.Close())
	fmt.Println(len(kept), total)
}

func check(err error) {
	if err != nil {
		fail(err.Error())
	}
}

func fail(message string) {
	fmt.Fprintln(os.Stderr, "workload: "+message)
	os.Exit(1)
}

// Results go here, so that the compiler keeps the work.
var (
	total int
	kept  [][]byte
	names = map[string]int{}
)

// CPU: two labelled requests and one unlabelled, with different shapes of stacks.

func cpu(duration time.Duration) {
	// A tenth of a second of work, or more: the machine may stand still for the whole of the time.
	const leastRounds = 50
	until := time.Now().Add(duration)
	for round := 0; round < leastRounds || time.Now().Before(until); round++ {
		labels := pprof.Labels("route", "/sort", "tenant", "t"+strconv.Itoa(round%3))
		pprof.Do(context.Background(), labels, func(context.Context) { total += sortNumbers(20000) })
		pprof.Do(context.Background(), pprof.Labels("route", "/fib"), func(context.Context) {
			total += fibonacci(24)
		})
		total += countWords("the quick brown fox jumps over the lazy dog", 400)
		total += sum(squares[int](5000))
	}
}

func sortNumbers(n int) int {
	numbers := make([]int, n)
	state := uint32(n)
	for i := range numbers {
		state = mix(state)
		numbers[i] = int(state)
	}
	sort.Slice(numbers, func(a, b int) bool { return numbers[a] < numbers[b] })
	return numbers[0]
}

// mix and double are small enough to be inlined, one into the other.
func mix(x uint32) uint32 { return double(x)*747796405 + 2891336453 }

func double(x uint32) uint32 { return x<<1 ^ x>>3 }

func fibonacci(n int) int {
	if n < 2 {
		return n
	}
	return fibonacci(n-1) + fibonacci(n-2)
}

func countWords(text string, times int) int {
	for i := 0; i < times; i++ {
		for _, word := range strings.Fields(text) {
			names[word]++
		}
	}
	return len(names)
}

func squares[T int | int64](n T) []T {
	out := make([]T, 0, n)
	for i := T(0); i < n; i++ {
		out = append(out, i*i)
	}
	return out
}

func sum(numbers []int) int {
	result := 0
	for _, number := range numbers {
		result += number
	}
	return result
}

// Heap: kept and dropped memory, several sizes from the same line.

type cache struct{ entries map[int][]byte }

func (c *cache) fill(n, size int) {
	for i := 0; i < n; i++ {
		c.entries[i] = allocate(size)
	}
}

func heap() {
	small, large := cache{map[int][]byte{}}, cache{map[int][]byte{}}
	small.fill(4000, 128)
	large.fill(200, 64<<10)
	for i := 0; i < 300; i++ {
		kept = append(kept, allocate(1024*(1+i%4)))
		total += len(scratch(256 << 10))
	}
	runtime.GC()
	runtime.GC()
	total += len(small.entries) + len(large.entries)
}

//go:noinline
func allocate(size int) []byte { return make([]byte, size) }

//go:noinline
func scratch(size int) []byte { return append(make([]byte, 0, size/2), make([]byte, size)...) }

// Contention: a mutex held for a while by turns, and channels that make each other wait.

type account struct {
	sync.Mutex
	balance int
}

func (a *account) deposit(amount int) {
	a.Lock()
	defer a.Unlock()
	a.balance += amount
	busy(200 * time.Microsecond)
}

func (a *account) withdraw(amount int) {
	a.Lock()
	a.balance -= amount
	busy(100 * time.Microsecond)
	a.Unlock()
}

func busy(d time.Duration) {
	for until := time.Now().Add(d); time.Now().Before(until); {
		total++
	}
}

func contention() {
	var shared account
	var group sync.WaitGroup
	for worker := 0; worker < 4; worker++ {
		group.Add(1)
		go func() {
			defer group.Done()
			for i := 0; i < 50; i++ {
				shared.deposit(2)
				shared.withdraw(1)
			}
		}()
	}
	pipeline(&group)
	group.Wait()
}

func pipeline(group *sync.WaitGroup) {
	items := make(chan int)
	group.Add(1)
	go func() {
		defer group.Done()
		for item := range items {
			busy(50 * time.Microsecond)
			_ = item
		}
	}()
	for i := 0; i < 100; i++ {
		items <- i
	}
	close(items)
}

func waiters() {
	release := make(chan struct{})
	for i := 0; i < 20; i++ {
		go func() { <-release }()
	}
	time.Sleep(10 * time.Millisecond)
}
