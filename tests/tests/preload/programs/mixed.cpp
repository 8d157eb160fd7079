// What C++ programs do, the same in every run: containers, strings, exceptions of the allocator's kind.
#include <map>
#include <memory>
#include <string>
#include <vector>

struct Node {
    std::string name;
    std::vector<int> values;
    std::unique_ptr<Node> next;
};

static std::unique_ptr<Node> build(int depth) {
    if (depth == 0) return nullptr;
    auto node = std::make_unique<Node>();
    node->name = std::string(20 + depth % 30, 'x');
    for (int at = 0; at < depth % 50; at++) node->values.push_back(at);
    node->next = build(depth - 1);
    return node;
}

int main() {
    std::map<std::string, std::vector<char>> words;
    for (int at = 0; at < 3000; at++) words[std::to_string(at * 7919 % 1000) + " is a longer key"].push_back('a');
    auto list = build(400);
    std::size_t length = 0;
    for (int at = 0; at < 2000; at++) length += (std::string(100, 'a') + std::to_string(at)).size();
    list.reset();
    new std::vector<int>(1000);
    return length == 0;
}
